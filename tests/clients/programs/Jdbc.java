// pgjdbc: DatabaseMetaData whole, dates, arrays, fetch sizes, copy, cancel. java -cp postgresql.jar Jdbc.java
// The address is in PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. Prints a line for each step.
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.sql.*;
import java.time.*;
import java.util.*;

public class Jdbc {
    interface Step { Object run() throws Exception; }

    static void step(String name, Step run) {
        String said;
        try {
            Object found = run.run();
            said = "ok\t" + String.valueOf(found).replaceAll("\\s+", " ");
        } catch (Throwable problem) {
            Throwable cause = problem instanceof java.lang.reflect.InvocationTargetException ? problem.getCause() : problem;
            boolean isMissing = cause instanceof SQLFeatureNotSupportedException;
            said = (isMissing ? "ok\tthe driver does not have it: " : "error\t") + String.valueOf(cause.getMessage()).replaceAll("\\s+", " ");
        }
        System.out.println(name + "\t" + (said.length() > 260 ? said.substring(0, 260) : said));
    }

    static int count(ResultSet rows) throws SQLException {
        int count = 0;
        ResultSetMetaData about = rows.getMetaData();
        while (rows.next()) {
            for (int at = 1; at <= about.getColumnCount(); at++) rows.getObject(at);
            count++;
        }
        rows.close();
        return count;
    }

    static Object argument(Class<?> type, int place, String method) {
        if (type == String.class) {
            if (place == 0) return null;
            if (method.equals("getSchemas")) return "main";
            return place == 1 ? "main" : method.contains("Columns") && place == 3 ? "%" : "persons";
        }
        if (type == int.class) return 0;
        if (type == boolean.class) return true;
        return null;
    }

    public static void main(String[] given) throws Exception {
        Properties set = new Properties();
        set.setProperty("user", System.getenv("PGUSER"));
        set.setProperty("password", System.getenv("PGPASSWORD"));
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
        Connection con = DriverManager.getConnection(url, set);
        DatabaseMetaData about = con.getMetaData();
        Method[] methods = DatabaseMetaData.class.getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::toString));
        for (Method method : methods) {
            if (Modifier.isStatic(method.getModifiers()) || method.getDeclaringClass() != DatabaseMetaData.class) continue;
            Class<?>[] types = method.getParameterTypes();
            Object[] values = new Object[types.length];
            for (int at = 0; at < types.length; at++) values[at] = argument(types[at], at, method.getName());
            step(method.getName(), () -> {
                Object found = method.invoke(about, values);
                return found instanceof ResultSet ? count((ResultSet) found) + " rows" : found;
            });
        }
        step("all tables", () -> count(about.getTables(null, null, "%", null)));
        step("all columns", () -> count(about.getColumns(null, null, "%", "%")));
        step("setDate", () -> {
            PreparedStatement ask = con.prepareStatement("SELECT count(*) FROM visits WHERE day >= ?");
            ask.setDate(1, java.sql.Date.valueOf("2024-02-01"));
            ResultSet found = ask.executeQuery();
            found.next();
            return found.getLong(1);
        });
        step("setTimestamp", () -> {
            PreparedStatement ask = con.prepareStatement("SELECT count(*) FROM visits WHERE visit_ts >= ?");
            ask.setTimestamp(1, Timestamp.valueOf("2024-02-01 00:00:00"));
            ResultSet found = ask.executeQuery();
            found.next();
            return found.getLong(1);
        });
        step("setObject of java.time", () -> {
            PreparedStatement ask = con.prepareStatement("SELECT count(*) FROM visits WHERE visit_ts >= ? AND day < ?");
            ask.setObject(1, LocalDateTime.of(2024, 2, 1, 0, 0));
            ask.setObject(2, LocalDate.of(2024, 3, 1));
            ResultSet found = ask.executeQuery();
            found.next();
            return found.getLong(1);
        });
        step("setArray", () -> {
            PreparedStatement ask = con.prepareStatement("SELECT count(*) FROM visits WHERE shop = ANY(?)");
            ask.setArray(1, con.createArrayOf("int4", new Object[] {1, 2, 3}));
            ResultSet found = ask.executeQuery();
            found.next();
            return found.getLong(1);
        });
        step("getArray", () -> {
            ResultSet found = con.createStatement().executeQuery("SELECT list FROM kinds");
            found.next();
            return Arrays.toString((Object[]) found.getArray(1).getArray());
        });
        step("types", () -> count(con.createStatement().executeQuery("SELECT * FROM kinds")));
        step("chart", () -> count(con.createStatement().executeQuery("SELECT date_trunc('month', visit_ts) AS month, count(*) FROM visits GROUP BY 1 ORDER BY 1")));
        step("protected chart", () -> count(con.createStatement().executeQuery("SELECT county, count(*) AS n FROM persons GROUP BY county ORDER BY county")));
        step("protected setDate", () -> {
            PreparedStatement ask = con.prepareStatement("SELECT count(*) FROM persons WHERE born >= ?");
            ask.setDate(1, java.sql.Date.valueOf("1960-01-01"));
            return count(ask.executeQuery());
        });
        step("fetch size", () -> {
            con.setAutoCommit(false);
            Statement ask = con.createStatement();
            ask.setFetchSize(50);
            int rows = count(ask.executeQuery("SELECT * FROM visits"));
            con.commit();
            con.setAutoCommit(true);
            return rows;
        });
        step("explain", () -> count(con.createStatement().executeQuery("EXPLAIN (FORMAT XML, ANALYZE false, VERBOSE false, COSTS false, BUFFERS false, TIMING false) SELECT * FROM counties")));
        step("time limit", () -> {
            Statement ask = con.createStatement();
            ask.setQueryTimeout(1);
            try {
                count(ask.executeQuery("SELECT sum(a.visit * b.visit * c.visit) FROM visits a, visits b, visits c"));
                return "not stopped";
            } catch (SQLException stopped) {
                return stopped.getSQLState();
            }
        });
        con.close();
    }
}
