"""The controller: decides what runs next, hands it to workers, and keeps the journal."""
