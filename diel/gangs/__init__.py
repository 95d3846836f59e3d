"""What runs beside the tasks that use it: services, streams, and gangs in line."""
