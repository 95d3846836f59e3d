"""The controller: decides what runs next, hands it to Parsl, and keeps the journal."""
