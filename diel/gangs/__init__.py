"""What runs beside the tasks that use it: services and streams."""
