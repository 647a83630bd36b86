# R's RPostgreSQL: what test_r.py expects is printed. The address is in the environment; libpq reads the rest of it.
suppressMessages(library(RPostgreSQL))
con <- dbConnect(PostgreSQL(), host = Sys.getenv("PGHOST"), port = Sys.getenv("PGPORT"), user = Sys.getenv("PGUSER"),
                 password = Sys.getenv("PGPASSWORD"), dbname = Sys.getenv("PGDATABASE"))
cat(sort(dbListTables(con)), "\n")
cat(dbListFields(con, "persons"), "\n")
cat(dbExistsTable(con, "persons"), dbExistsTable(con, "nothing"), "\n")
cat(dbGetQuery(con, "SELECT label FROM counties WHERE county = 'c2'")$label, "\n")
cat(dbGetQuery(con, Sys.getenv("COUNT"))$county, "\n")
cat(nrow(dbReadTable(con, "counties")), "\n")
refused <- try(dbGetQuery(con, Sys.getenv("RECORDS")), silent = TRUE)
cat(is.null(refused) || inherits(refused, "try-error"), "\n")
invisible(dbDisconnect(con))
