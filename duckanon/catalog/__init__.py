"""Names, policies and a snapshot of a database's catalog: the model that rules, guard and governance share."""
