"""Names, policies, and what is known of a database: the one model that rules, guard and governance share."""
