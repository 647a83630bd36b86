"""Pictures: what they show, that they read well, and that the same result gives the same file."""

import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.cli.commands import app
from duckanon.integrations.plots import PICTURES, Picture, mechanism, plot
from duckanon.integrations.plots.mechanism import ordered
from duckanon.integrations.plots.picture import styled
from duckanon.integrations.plots.result_columns import ResultColumns, result_columns
from duckanon.integrations.plots.style import number, short
from duckanon.specification import sql_root
from tests.amounts import sampled

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<b>&\"$x$ & $y$' \x07\u202e"
LONG = "the department of long names and of many words, number "

COMPARED = [
    {"method": method, "k": k, "classes": 940 // k, "min_class": k, "information_loss": k / 100 + i / 50,
     "lower_bound": k / 200, "avg_class": float(k), "gap": 0.5}
    for i, method in enumerate(["auto", "order", NASTY, *(f"method {j}" for j in range(9))]) for k in (2, 5, 10, 50)
]  # fmt: skip
BOUNDS = [
    {"ward": NASTY if i == 3 else f"{LONG}{i}", "outcome": f"{LONG}{j}",
     "n": 0 if j == 5 else i + j + 1, "lower": 0 if j == 5 else 1 + i, "upper": 0 if j == 5 else 1 + i + (i % 3) * j,
     "feasible": 1, "disclosed": j == 5 or (i % 3) * j == 0}
    for i in range(9) for j in range(30)
]  # fmt: skip
SIZES = [
    {"level": level, "state": None if level == 0 else f"{LONG}{region}", "size": size, "groups": 5000 // size ** 2,
     "low": max(0, 5000 // size ** 2 - 9), "high": 5000 // size ** 2 + 9}
    for level, regions in ((0, 1), (1, 8)) for region in range(regions) for size in range(1, 80)
]  # fmt: skip
MECHANISM = [
    {"secret": f"{LONG}{i}", "output": f"{LONG}{j}", "probability": 1e-9 if i != j else 1 - 29e-9}
    for i in range(30) for j in range(30)
]  # fmt: skip
UTILITY: list[dict[str, Any]] = [
    *({"measure": "total_variation", "columns": [f"{LONG}{i}"], "value": None, "before": None, "after": None,
       "difference": i / 20} for i in range(9)),
    *({"measure": "share", "columns": [f"{LONG}{i}"], "value": f"{NASTY} {LONG}{j}", "before": j / 200,
       "after": (j + i) / 250, "difference": (j + i) / 250 - j / 200}
      for i in range(9) for j in range(20 if i % 3 else 4)),
    *({"measure": "query_error", "columns": ["a"], "value": value, "before": None, "after": None, "difference": wrong}
      for value, wrong in (("median", 0.01), ("75 %", 0.2), ("95 %", 0.9))),
]  # fmt: skip
PLACES = [{"id": f"{LONG}{i}", "lat": 50 + i % 6 / 100, "lon": 8 + i // 6 / 50} for i in range(30)]


def columns(rows: Sequence[Mapping[str, Any]]) -> ResultColumns:
    return ResultColumns({name: [row[name] for row in rows] for name in rows[0]})


ON_MAP = {"places": columns(PLACES), "id": "id", "features": ["lat", "lon"], "metric": "haversine"}
DRAWN: dict[str, tuple[ResultColumns, dict[str, Any]]] = {
    "compare": (columns(COMPARED), {}),
    "utility": (columns(UTILITY), {}),
    "bounds": (columns(BOUNDS), {}),
    "sizes": (columns(SIZES), {"epsilon": "1/3"}),
    "mechanism": (columns(MECHANISM), {}),
    "map": (columns(MECHANISM), ON_MAP),
}


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return {kind: plot(result, kind, **options) for kind, (result, options) in DRAWN.items()}


@pytest.fixture(scope="module")
def files(pictures: dict[str, Picture]) -> dict[str, str]:
    return {kind: picture.svg() for kind, picture in pictures.items()}


def texts(picture: Picture | str) -> list[str]:
    root = ElementTree.fromstring(picture if isinstance(picture, str) else picture.svg())
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_is_svg_with_text_and_always_the_same(files: dict[str, str], kind: str) -> None:
    result, options = DRAWN[kind]
    again = plot(result, kind, **options)
    assert again._repr_svg_() == files[kind]
    assert any("<b>" in one for one in texts(files[kind])) == (kind in ("compare", "bounds", "utility"))
    assert re.search(r"\d{4}-\d\d-\d\d", files[kind]) is None


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_is_800_pixels_wide_and_nothing_leaves_it_or_overlaps(
    pictures: dict[str, Picture], kind: str
) -> None:
    figure = pictures[kind].figure
    assert figure.get_figwidth() * figure.dpi == 800
    assert figure.get_figheight() * figure.dpi <= 1700
    boxes = []
    with styled():
        renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
        figure.draw_without_rendering()
        for one in _texts(figure):
            box = one.get_window_extent(renderer)
            assert one.get_fontsize() >= 7.5, one.get_text()
            assert box.x0 >= -1, one.get_text()
            assert box.x1 <= 802, one.get_text()
            assert box.y0 >= -1, one.get_text()
            if one.get_rotation() in (0, 90):
                boxes.append((box, one.get_text()))
    for i, (one, text) in enumerate(boxes):
        for other, beside in boxes[:i]:
            wide = min(one.x1, other.x1) - max(one.x0, other.x0)
            high = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert wide <= 1.5 or high <= 1.5, (text, beside)


def _texts(figure: Any) -> list:
    from matplotlib.text import Text

    shown = [one for one in figure.findobj(Text) if one.get_text().strip() and one.get_visible()]
    hidden = {id(one) for axes in _all_axes(figure) if not axes.get_visible() for one in axes.findobj(Text)}
    ticks = {
        id(label)
        for axes in _all_axes(figure)
        for axis in (axes.xaxis, axes.yaxis)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        for label in (tick.label1, tick.label2)
        if not label.get_visible() or not _within(axis, tick)
    }
    return [one for one in shown if id(one) not in hidden | ticks]


def _within(axis: Any, tick: Any) -> bool:
    low, high = sorted(axis.get_view_interval())
    return low - 1e-9 <= tick.get_loc() <= high + 1e-9


def _all_axes(figure: Any) -> list:
    return list(figure.axes)


def test_inline_pictures_do_not_share_names(pictures: dict[str, Picture]) -> None:
    drawn = [picture.inline(f"n{i}-") for i, picture in enumerate(pictures.values())]
    page = "".join(drawn)
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
    assert used <= set(names)
    for one in drawn:
        ElementTree.fromstring(one)
        assert one.startswith('<svg role="img" aria-label="')
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", one)


def test_disclosed_counts_are_marked_without_colour_and_zeros_are_not() -> None:
    rows = [
        {"w": "A", "o": "x", "n": 5, "lower": 5, "upper": 5, "feasible": 1, "disclosed": True},
        {"w": "A", "o": "y", "n": 0, "lower": 0, "upper": 0, "feasible": 1, "disclosed": True},
        {"w": "B", "o": "x", "n": 3, "lower": 1, "upper": 9, "feasible": 9, "disclosed": False},
    ]
    picture = plot(columns(rows))
    assert picture.kind == "bounds"
    assert picture.says.startswith("1 of 2 counts above zero follows exactly")
    (axes, *_) = picture.figure.axes
    assert [one.get_hatch() for one in axes.patches if one.get_hatch()] == ["////"]
    assert {"5", "0", "3  (1–9)", "follows exactly"} <= set(texts(picture))
    assert not any("small" in one for one in texts(picture))
    # Small counts that follow have another mark.
    small = plot(columns(rows), small=6)
    assert not [one for one in small.figure.axes[0].patches if one.get_hatch()]
    assert "follows exactly, and small (1 to 5)" in texts(small)
    assert "1 small count among them." in small.says
    assert "3  (1–9)" not in texts(plot(columns(rows), counts=False))
    assert "1–9" in texts(plot(columns(rows), counts=False))


def test_the_brightest_field_has_the_narrowest_bounds() -> None:
    cell = {"n": 9, "lower": 1, "disclosed": False}
    rows = [{"w": "A", "o": width, **cell, "upper": 1 + width} for width in (2, 5, 9, 30)]
    (axes, bar) = plot(columns(rows)).figure.axes
    (fields,) = axes.collections
    colours = fields.cmap(fields.norm(fields.get_array().ravel()))
    light = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue, _ in colours]
    assert light == sorted(light, reverse=True)
    # The bar beside it has the bright end above.
    assert bar.yaxis_inverted()


def test_a_wall_of_counts_that_follow_is_a_summary() -> None:
    rows = [
        {"w": i, "o": j, "n": 3 + j, "lower": 3 + j, "upper": 3 + j + (i == j == 0), "disclosed": bool(i or j)}
        for i in range(8)
        for j in range(6)
    ]
    picture = plot(columns(rows))
    (axes,) = picture.figure.axes
    assert not axes.collections
    # Of each row, a bar for the small counts (3 and 4), for the others that follow, and for the one that stays open.
    assert sorted(bar.get_width() for bar in axes.patches if bar.get_width()) == [1, 1, *[2] * 7, *[4] * 8]
    assert {"follows exactly, and small (1 to 4)", "follows exactly", "stays open"} <= set(texts(picture))
    assert any("the bars say how many in each row" in one for one in texts(picture))


def test_bounds_from_several_tables() -> None:
    con = duckanon.connect()
    con.execute(
        "CREATE TABLE records AS SELECT i % 2 AS a, i % 5 = 0 AS b, i % 3 AS c FROM range(60) r(i);"
        "CREATE TABLE ab AS SELECT a, b, count(*) AS n FROM records GROUP BY ALL;"
        "CREATE TABLE bc AS SELECT b, c, count(*) AS n FROM records GROUP BY ALL"
    ).fetchall()
    tables = "[{'tbl': 'ab', 'vars': ['a', 'b'], 'value': 'n'}, {'tbl': 'bc', 'vars': ['b', 'c'], 'value': 'n'}]"
    picture = plot(f"FROM table_bounds(tables := {tables}, target := ['a', 'b'])", con=con)
    assert picture.kind == "bounds"
    assert picture.says.startswith("4 of 4 counts above zero follow exactly from the tables. 2 rows by a, 2 columns")
    open_ = plot(f"FROM table_bounds(tables := {tables}, target := ['a', 'c'])", con=con)
    assert open_.says.startswith("0 of 6 counts above zero follow exactly from the tables")
    assert "0–20" in texts(open_)


def test_what_is_left_out_is_said() -> None:
    many = [{**BOUNDS[j], "ward": i} for i in range(66) for j in range(2)]
    assert any("40 of 66 rows" in one for one in texts(plot(columns(many))))
    regions = texts(plot(columns(SIZES)))
    assert any("Level 1: the 6 of 8 regions with the most groups." in one for one in regions)
    wide = [{"secret": i, "output": j, "probability": 1 / 250} for i in range(250) for j in range(250)]
    assert any("first 200 of 250 records" in one for one in texts(plot(columns(wide))))


def test_loss_and_risk_are_percentages_of_the_result() -> None:
    figure = plot(columns(COMPARED)).figure
    above, below = figure.axes
    lines = {line.get_label(): line for line in above.get_lines()}
    assert list(lines["auto"].get_ydata()) == pytest.approx([2, 5, 10, 50])
    assert list(lines["least possible"].get_ydata()) == pytest.approx([1, 2.5, 5, 25])
    assert above.get_yscale() == "log"
    assert above.get_ylabel() == "information lost (%, logarithmic)"
    assert below.get_xlabel().endswith("(logarithmic)")
    highest = next(line for line in below.get_lines() if line.get_label() == "highest: 1 / k")
    assert list(highest.get_ydata()) == pytest.approx([50, 20, 10, 2])


def test_lines_that_hide_each_other_are_one_and_names_have_their_colours() -> None:
    from matplotlib.colors import to_rgb

    rows = [{**one, "method": name} for one in COMPARED if one["method"] == "auto" for name in ("auto", "refine")]
    other = [{**one, "information_loss": 0.9, "method": "initial"} for one in rows if one["method"] == "auto"]
    (above, below) = plot(columns([*rows, *other])).figure.axes
    names = [one.get_text() for one in above.get_legend().get_texts()]
    assert names == ["initial", "auto,\nrefine", "least possible"]
    assert len([one for one in below.get_lines() if len(one.get_xdata()) == 4]) == 3
    for line, name in zip(above.get_legend().get_lines(), above.get_legend().get_texts(), strict=True):
        # The same hue, dark enough to be read.
        shade, text = to_rgb(line.get_color()), to_rgb(name.get_color())
        assert [x <= y + 1e-9 for x, y in zip(text, shade, strict=True)] == [True] * 3
        assert sum(text) < 1.7
    # Of one k, methods stand beside each other.
    (above, _) = plot(columns([one for one in (*rows, *other) if one["k"] == 5])).figure.axes
    places = [one.get_xdata()[0] for one in above.get_lines() if len(one.get_xdata()) == 1 and one.get_label() in names]
    assert len(set(places)) == len(places)


def test_true_sizes_are_drawn_only_when_asked_for_and_larger_ones_count_with_the_last() -> None:
    rows = [{"level": 0, "size": size, "groups": 4, "low": 2, "high": 6} for size in (1, 2, 3)]
    truth = [{"level": 0, "size": size, "groups": 1} for size in (1, 3, 4, 7)]
    plain, over = plot(columns(rows)), plot(columns(rows), truth=columns(truth))
    assert "not for release" in over.says
    assert "true" not in plain.svg().replace("the true number", "")
    (axes,) = over.figure.axes
    (crosses,) = axes.get_lines()
    assert list(crosses.get_ydata()) == [1, 0, 3]
    # Bars with whiskers: nothing joins two sizes.
    assert [bar.get_height() for bar in axes.patches] == [4, 4, 4]
    whiskers = axes.collections[0].get_segments()
    assert [[tuple(end) for end in one] for one in whiskers] == [[(i, 2), (i, 6)] for i in (1, 2, 3)]


def test_a_map_keeps_its_shape_and_measures_in_kilometres(pictures: dict[str, Picture]) -> None:
    for axes in pictures["map"].figure.axes:
        assert axes.get_aspect() == pytest.approx(1 / 0.6424, rel=1e-2)
    assert any(re.fullmatch(r"\d+(\.\d+)? km", one) for one in texts(pictures["map"]))
    assert "lat (degrees)" in texts(pictures["map"])


def test_places_of_decimals_have_all_names_or_a_few() -> None:
    def drawn(side: int) -> list[str]:
        names = [f"place {i}" for i in range(side * side)]
        rows = [
            {"secret": one, "output": other, "probability": 0.5 if one == other else 0.5 / (len(names) - 1)}
            for one in names
            for other in names
        ]
        at = [{"id": one, "x": Decimal(i % side), "y": Decimal(i // side)} for i, one in enumerate(names)]
        options: dict[str, Any] = {"places": columns(at), "id": "id", "features": ["x", "y"], "secrets": names[:1]}
        picture = plot(columns(rows), **options)
        return [one.get_text() for one in picture.figure.axes[0].texts]

    assert sorted(drawn(3)) == [f"place {i}" for i in range(9)]
    few = drawn(7)
    assert few[0] == "place 0"
    assert 1 <= len(few) <= 5


@pytest.mark.parametrize(("chance", "said"), [(1, "100 %"), (0.0525, "5.25 %"), (1e-5, "0.001 %"), (1e-6, "0.0001 %")])
def test_chances_are_written_as_people_write_them(chance: float, said: str) -> None:
    assert mechanism._percent(chance) == said


@pytest.mark.parametrize("form", sampled(["relation", "arrow", "pandas", "sql"]))
def test_results_come_in_any_form(con: duckdb.DuckDBPyConnection, form: str) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 3 AS a, i % 2 AS b, i % 3 + 1 AS n FROM range(12) r(i)").fetchall()
    sql = "FROM cell_bounds('t', ['a'], ['b'])"
    relation = con.sql(sql)
    data = {
        "relation": relation,
        "arrow": relation.to_arrow_table(),
        "pandas": relation.df(),
        "sql": sql,
    }[form]
    assert duckanon.plot(data, con=con).svg() == duckanon.plot(relation).svg()


def test_an_analyst_draws_answers() -> None:
    with duckanon.connect(role="analyst") as con:
        assert duckanon.plot(con.sql("SELECT 1 AS secret, 1 AS output, 1.0::DOUBLE AS probability")).kind == "mechanism"


def test_sums_of_integers_are_integers() -> None:
    with duckdb.connect() as con:
        assert result_columns(con.sql("SELECT sum(i) AS s FROM range(3) r(i)"))["s"] == [3]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ({"a": [1]}, {}, "These columns are of no result that there is a picture for"),
        ({"a": [1]}, {"kind": "pie"}, "There is no picture 'pie'"),
        ({"secret": [], "output": [], "probability": []}, {}, "no rows"),
        ({"secret": [1], "output": [1], "probability": [1.0]}, {"colour": "red"}, "has no option colour: it has title"),
        ({"secret": [1], "output": [1], "probability": [1.0]}, {"kind": "sizes"}, "has no column groups, high, level"),
        ({"secret": [1], "output": [1], "probability": [1.0]}, {"kind": "map"}, "A map needs the table of records"),
    ],
)
def test_bad_input_is_one_sentence(data: dict, options: dict, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plot(ResultColumns(data), **options)


def test_sql_without_a_connection_and_things_without_rows_are_told() -> None:
    with pytest.raises(InvalidInput, match="SQL needs a connection"):
        plot("FROM t")
    with pytest.raises(InvalidInput, match="nothing to draw in this"):
        plot(7)


def test_names_and_numbers_fit() -> None:
    assert ordered(["cell 10", None, "cell 2"]) == ["cell 2", "cell 10", None]
    assert ordered([10, 2, 2]) == [2, 10]
    assert short("a" * 20 + "b" * 20, 10) == "aaaaaa…bbb"
    assert [number(one) for one in (0, 4, 1234, 123456, 2.5e6, 10**18)] == ["0", "4", "1,234", "123k", "2.5M", "1E"]


def test_pyplot_stays_out_and_settings_of_others_stay() -> None:
    code = (
        "import sys, matplotlib; matplotlib.rcParams['font.size'] = 31\n"
        "from duckanon.integrations.plots import plot\n"
        "from duckanon.integrations.plots.result_columns import ResultColumns\n"
        "plot(ResultColumns({'secret': [1], 'output': [1], 'probability': [1.0]})).svg()\n"
        "print('matplotlib.pyplot' in sys.modules, matplotlib.rcParams['font.size'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False 31.0"


# --- duckanon plot ----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, ["plot", *arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as con:
        duckanon.register(con)
        con.execute("CREATE TABLE clinic AS SELECT i % 3 AS ward, i % 2 AS outcome FROM range(30) r(i)").fetchall()
        con.execute("CREATE TABLE persons AS SELECT i // 3 AS household FROM range(60) r(i)").fetchall()
        con.execute("CREATE TABLE stops AS FROM (VALUES ('a', 0, 1), ('b', 1, 0)) t(stop, x, y)").fetchall()
        con.execute(
            "CREATE TABLE released AS FROM dp_group_sizes('persons', 'household', epsilon := 1, max_size := 5)"
        ).fetchall()
        con.execute("COPY clinic TO 'clinic.csv'").fetchall()
    return tmp_path


DATABASE = ["shop.duckdb", "--table"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    sampled(
        [
            (
                ["compare", "clinic.csv", "--qi", "ward,outcome", "--k", "2,5"],
                "Loss and risk of k-anonymous copies of 30",
            ),
            (["bounds", "clinic.csv", "--rows", "ward", "--cols", "outcome"], "counts above zero"),
            (
                ["utility", "clinic.csv", "--after", "clinic.csv", "--columns", "ward,outcome"],
                "Most moved is outcome, by 0 %",
            ),
            (["sizes", *DATABASE, "released", "--epsilon", "1"], "1 region on 1 level, epsilon 1."),
            (["sizes", *DATABASE, "released", "--truth", "persons", "--unit", "household"], "not for release"),
            (["mechanism", *DATABASE, "stops", "--id", "stop", "--features", "x,y", "--epsilon", "1"], "2 records"),
            (["map", *DATABASE, "stops", "--id", "stop", "--features", "x,y", "--epsilon", "1"], "2 of 2 records"),
        ]
    ),
)
def test_the_command_draws(here: Path, arguments: list[str], said: str) -> None:
    before = (here / "shop.duckdb").read_bytes()
    result = run(*arguments, "--out", "picture.svg")
    assert result.exit_code == 0, result.output
    assert said in result.stderr
    assert ElementTree.parse("picture.svg").getroot().tag == f"{SVG}svg"
    assert (here / "shop.duckdb").read_bytes() == before


def test_the_command_writes_png_and_minds_what_is_there(here: Path) -> None:
    arguments = ["sizes", *DATABASE, "released", "--out"]
    assert run(*arguments, "a.png").exit_code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    again = run(*arguments, "a.png")
    assert (again.exit_code, "a.png exists already" in again.stderr) == (1, True)
    assert run(*arguments, "a.png", "--force").exit_code == 0
    assert "ends in .svg or .png" in run(*arguments, "a.jpg").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    sampled(
        [
            (["bounds", "clinic.csv", "--rows", "ward"], "--rows needs --cols"),
            (["bounds", "clinic.csv", "--rows", "ward", "--cols", "outcome", "--p", "s"], "--p needs --n"),
            (
                ["bounds", "clinic.csv"],
                "This is no result of cell_bounds, conditional_bounds or table_bounds: name its columns with --rows",
            ),
            (["mechanism", *DATABASE, "stops", "--id", "stop"], "A mechanism needs --features"),
            (["utility", "clinic.csv"], "This is no result of k_utility: name the release with --after"),
            (
                ["utility", "clinic.csv", "--after", "clinic.csv"],
                "Name the columns to compare, as in --columns age,zip.",
            ),
            (
                ["utility", "clinic.csv", "--after", "none.csv", "--columns", "ward"],
                "AFTER: there is no file none.csv.",
            ),
            (["sizes", *DATABASE, "released", "--truth", "persons"], "--truth needs --unit"),
            (["compare", "clinic.csv", "--qi", "ward", "--k", "x"], "--k needs whole numbers"),
        ]
    ),
)
def test_the_command_complains_in_one_sentence(here: Path, arguments: list[str], said: str) -> None:
    result = run(*arguments, "--out", "p.svg")
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("p.svg").exists()


DOCS = Path(__file__).resolve().parents[3] / "docs" / "how-to"
COMMANDS = re.findall(r"^    duckanon plot (.+)$", (DOCS / "pictures.md").read_text("utf-8").replace("\\\n", ""), re.M)


@pytest.mark.usefixtures("whole_search")
@pytest.mark.long("what the documentation shows is drawn again")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_pictures_of_the_documentation_say_what_their_commands_make(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their texts: lines and letters lie a little otherwise with each version of matplotlib."""
    *arguments, _, out = shlex.split(command)
    monkeypatch.chdir(sql_root() / "examples")
    result = run(*arguments, "--out", str(tmp_path / "picture.svg"))
    assert result.exit_code == 0, result.output
    made, kept = (path.read_text("utf-8") for path in (tmp_path / "picture.svg", Path(out)))
    assert texts(made) == texts(kept)
    assert Path(out).name in (DOCS / "pictures.md").read_text("utf-8")


def test_every_picture_is_in_the_documentation() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(PICTURES)


def test_without_matplotlib_it_says_what_to_install(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("sizes", *DATABASE, "released", "--out", "p.svg")
    assert (result.exit_code, result.stderr) == (1, "Pictures need matplotlib: pip install 'duckanon[plot]'.\n")
