# The first ten minutes with RPostgreSQL. The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE.
library(DBI)
library(RPostgreSQL)
con <- dbConnect(PostgreSQL(), host = Sys.getenv("PGHOST"), port = as.integer(Sys.getenv("PGPORT")),
                 user = Sys.getenv("PGUSER"), password = Sys.getenv("PGPASSWORD"), dbname = Sys.getenv("PGDATABASE"))
step <- function(name, run) {
  said <- tryCatch({ found <- run(); paste("ok", if (is.data.frame(found)) nrow(found) else length(found)) },
                   error = function(problem) paste("error", conditionMessage(problem)),
                   warning = function(problem) paste("error", conditionMessage(problem)))
  cat(name, said, sep = "\t")
  cat("\n")
}
step("tables", function() dbListTables(con))
step("exists", function() dbExistsTable(con, c("main", "visits")))
step("fields", function() dbListFields(con, c("main", "persons")))
step("read", function() dbReadTable(con, c("main", "counties")))
step("since", function() dbGetQuery(con, "SELECT shop, count(*) AS n FROM visits WHERE visit_ts >= '2024-02-01 00:00:00' GROUP BY shop"))
step("range", function() dbGetQuery(con, "SELECT count(*) FROM visits WHERE day BETWEEN '2024-01-01' AND '2024-01-31'"))
step("parameter", function() dbGetQuery(con, "SELECT label FROM counties WHERE county = $1", "c2"))
step("chart", function() dbGetQuery(con, "SELECT date_trunc('month', visit_ts) AS month, count(*) AS n FROM visits GROUP BY 1 ORDER BY 1"))
step("protected chart", function() dbGetQuery(con, "SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county"))
step("types", function() { found <- dbSendQuery(con, "SELECT * FROM kinds"); about <- dbColumnInfo(found); dbClearResult(found); about })
step("info", function() dbGetInfo(con))
step("export", function() { file <- tempfile(); write.csv(dbGetQuery(con, "SELECT * FROM visits"), file); file })
step("transaction", function() { dbBegin(con); dbGetQuery(con, "SELECT 1"); dbCommit(con) })
invisible(dbDisconnect(con))
