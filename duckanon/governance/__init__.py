"""What is allowed and what was spent, remembered in the database."""
