"""Names of DuckDB's aggregates and window functions; versions of sqlglot know different ones as such."""

# One name for each aggregate that has several in sqlglot or DuckDB.
ONE_NAME = {
    "array_agg": "list",
    "group_concat": "string_agg",
    "listagg": "string_agg",
    "arbitrary": "any_value",
    "first": "any_value",
    "logical_and": "bool_and",
    "logical_or": "bool_or",
    "countif": "count_if",
    "mean": "avg",
}

# All of DuckDB's aggregates, also those that sqlglot takes for plain functions.
AGGREGATES = frozenset({
    "any_value", "approx_count_distinct", "approx_quantile", "approx_top_k", "arbitrary", "arg_max", "arg_max_null",
    "arg_min", "arg_min_null", "argmax", "argmin", "array_agg", "avg", "bit_and", "bit_or", "bit_xor",
    "bitstring_agg", "bool_and", "bool_or", "corr", "count", "count_if", "count_star", "countif", "covar_pop",
    "covar_samp", "entropy", "favg", "first", "fsum", "geomean", "geometric_mean", "group_concat", "histogram",
    "histogram_exact", "kahan_sum", "kurtosis", "kurtosis_pop", "last", "list", "listagg", "mad", "max", "max_by",
    "mean", "median", "min", "min_by", "mode", "product", "quantile", "quantile_cont", "quantile_disc", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    "reservoir_quantile", "sem", "skewness", "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum",
    "sum_no_overflow", "sumkahan", "var_pop", "var_samp", "variance",
})  # fmt: skip

# Aggregates whose result shows values of single records.
SHOWING = frozenset({
    "any_value", "first", "last", "min", "max", "list", "string_agg", "arg_min", "arg_max", "arg_min_null",
    "arg_max_null", "min_by", "max_by", "mode", "median", "quantile", "quantile_cont", "quantile_disc",
    "percentile_cont", "percentile_disc", "reservoir_quantile", "histogram", "histogram_exact", "approx_top_k",
    "bitstring_agg", "argmin", "argmax", "array_agg",
})  # fmt: skip

# Functions that need a window.
WINDOWED = frozenset({
    "row_number", "rank", "dense_rank", "rank_dense", "percent_rank", "cume_dist", "ntile", "lag", "lead",
    "first_value", "last_value", "nth_value", "fill",
})  # fmt: skip
