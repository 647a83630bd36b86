"""The time zones into which columns are brought: by closed list, as SQL, and what becomes of bounds.

DuckDB fails on a record where it does not know a zone, so a name must be one that all supported versions know. Columns
with a time zone are written as TIMESTAMPs in UTC. DuckDB computes what clocks of a zone show, and which moment they
mean: where they are put back a time means the later moment, and where they are put forward the one after the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from duckanon.rewrite.algebra.moments import zone_named, zone_of
from duckanon.rewrite.algebra.total import builtin

_MICRO, _FIRST = timedelta(microseconds=1), datetime(1970, 1, 1)
# A zone's clocks change by less than 26 hours at once.
_QUARTER, _QUARTERS = timedelta(minutes=15), 26 * 4
_UTC = "UTC"
UNKNOWN = "AT TIME ZONE takes the constant name of a zone here, as in x AT TIME ZONE 'Europe/Berlin'."


def zone_by_name(name: str) -> str | None:
    """A zone as DuckDB and Python have it, in whatever case it is written; None for one that one of them may lack."""
    if zone_named(name) is UTC:
        return _UTC
    known_name = _BY_FOLDED.get(name.lower())
    return known_name if known_name is not None and zone_named(known_name) is not None else None


def session_zone(today: date | None) -> str | None:
    """The session's zone; None for one that is not in the list."""
    zone = zone_of(today)
    if zone is UTC:
        return _UTC
    return zone_by_name(zone.key) if isinstance(zone, ZoneInfo) else None


def clock_sql(zone: str, moment: str) -> str:
    """What clocks of a zone show at a moment, which is a TIMESTAMP in UTC, as SQL."""
    return moment if zone == _UTC else builtin("timezone", f"'{zone}'", builtin("timezone", "'UTC'", moment))


def moment_sql(zone: str, clock: str) -> str:
    """The moment at which clocks of a zone show a TIMESTAMP, as a TIMESTAMP in UTC, as SQL."""
    return clock if zone == _UTC else builtin("timezone", "'UTC'", builtin("timezone", f"'{zone}'", clock))


def moment_of(clock: datetime, zone: tzinfo | None) -> datetime | None:
    """The moment in UTC at which clocks of a zone show a time; None where that is twice, never or not known."""
    if zone is None:
        return None
    moments = {clock.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    if len(moments) > 1:
        return None
    (moment,) = moments
    return moment.replace(tzinfo=None)


def moments_of(clock: datetime, zone: str) -> list[datetime]:
    """The moments in UTC at which clocks of a zone show a time: two where they are changed."""
    own = zone_named(zone)
    return [clock.replace(tzinfo=own, fold=number).astimezone(UTC).replace(tzinfo=None) for number in (0, 1)]


def clock_ends(zone: str, low: int, high: int) -> tuple[int, int]:
    """The first and the last time that clocks of a zone show between two moments, all in microseconds since 1970.

    Raises OverflowError outside of the years 1 to 9999.
    """
    own = zone_named(zone)
    return _moved_ends(low, high, lambda at: [at.replace(tzinfo=UTC).astimezone(own).replace(tzinfo=None)])


def moment_ends(zone: str, low: int, high: int) -> tuple[int, int]:
    """The first and the last moment at which clocks of a zone show a time between two. Raises OverflowError."""
    return _moved_ends(low, high, lambda at: moments_of(at, zone))


def _moved_ends(low: int, high: int, moved: Callable[[datetime], list[datetime]]) -> tuple[int, int]:
    """The least and the largest of times that are moved between zones.

    Where clocks change soon after the first, a later one may become less, and so may an earlier one become more than
    the last. Clocks change at quarters of an hour.
    """
    first, last = (_FIRST + at * _MICRO for at in (low, high))
    after = first + (datetime.min - first) % _QUARTER
    before = last - (last - datetime.min) % _QUARTER
    firsts = [first, *(moment for at in range(_QUARTERS) if (moment := after + at * _QUARTER) <= last)]
    lasts = [last, *(moment for at in range(_QUARTERS) if (moment := before - at * _QUARTER - _MICRO) >= first)]
    least = min(moment for at in firsts for moment in moved(at))
    most = max(moment for at in lasts for moment in moved(at))
    return (least - _FIRST) // _MICRO, (most - _FIRST) // _MICRO


@lru_cache(maxsize=64)
def are_different_moments(zone: str, clocks: range) -> bool:
    """Whether no two times, in microseconds since 1970, are one moment in a zone: a time that is left out is."""
    own = zone_named(zone)
    moments = {(_FIRST + at * _MICRO).replace(tzinfo=own).astimezone(UTC) for at in clocks}
    return len(moments) == len(clocks)


_AREAS = {
    "Africa": """
        Abidjan Accra Addis_Ababa Algiers Asmara Asmera Bamako Bangui Banjul Bissau Blantyre Brazzaville Bujumbura Cairo
        Casablanca Ceuta Conakry Dakar Dar_es_Salaam Djibouti Douala El_Aaiun Freetown Gaborone Harare Johannesburg Juba
        Kampala Khartoum Kigali Kinshasa Lagos Libreville Lome Luanda Lubumbashi Lusaka Malabo Maputo Maseru Mbabane
        Mogadishu Monrovia Nairobi Ndjamena Niamey Nouakchott Ouagadougou Porto-Novo Sao_Tome Timbuktu Tripoli Tunis
        Windhoek
    """,
    "America": """
        Adak Anchorage Anguilla Antigua Araguaina Argentina/Buenos_Aires Argentina/Catamarca Argentina/ComodRivadavia
        Argentina/Cordoba Argentina/Jujuy Argentina/La_Rioja Argentina/Mendoza Argentina/Rio_Gallegos Argentina/Salta
        Argentina/San_Juan Argentina/San_Luis Argentina/Tucuman Argentina/Ushuaia Aruba Asuncion Atikokan Atka Bahia
        Bahia_Banderas Barbados Belem Belize Blanc-Sablon Boa_Vista Bogota Boise Buenos_Aires Cambridge_Bay Campo_Grande
        Cancun Caracas Catamarca Cayenne Cayman Chicago Chihuahua Ciudad_Juarez Coral_Harbour Cordoba Costa_Rica
        Coyhaique Creston Cuiaba Curacao Danmarkshavn Dawson Dawson_Creek Denver Detroit Dominica Edmonton Eirunepe
        El_Salvador Ensenada Fort_Nelson Fort_Wayne Fortaleza Glace_Bay Godthab Goose_Bay Grand_Turk Grenada Guadeloupe
        Guatemala Guayaquil Guyana Halifax Havana Hermosillo Indiana/Indianapolis Indiana/Knox Indiana/Marengo
        Indiana/Petersburg Indiana/Tell_City Indiana/Vevay Indiana/Vincennes Indiana/Winamac Indianapolis Inuvik Iqaluit
        Jamaica Jujuy Juneau Kentucky/Louisville Kentucky/Monticello Knox_IN Kralendijk La_Paz Lima Los_Angeles
        Louisville Lower_Princes Maceio Managua Manaus Marigot Martinique Matamoros Mazatlan Mendoza Menominee Merida
        Metlakatla Mexico_City Miquelon Moncton Monterrey Montevideo Montreal Montserrat Nassau New_York Nipigon Nome
        Noronha North_Dakota/Beulah North_Dakota/Center North_Dakota/New_Salem Nuuk Ojinaga Panama Pangnirtung
        Paramaribo Phoenix Port-au-Prince Port_of_Spain Porto_Acre Porto_Velho Puerto_Rico Punta_Arenas Rainy_River
        Rankin_Inlet Recife Regina Resolute Rio_Branco Rosario Santa_Isabel Santarem Santiago Santo_Domingo Sao_Paulo
        Scoresbysund Shiprock Sitka St_Barthelemy St_Johns St_Kitts St_Lucia St_Thomas St_Vincent Swift_Current
        Tegucigalpa Thule Thunder_Bay Tijuana Toronto Tortola Vancouver Virgin Whitehorse Winnipeg Yakutat Yellowknife
    """,
    "Antarctica": """
        Casey Davis DumontDUrville Macquarie Mawson McMurdo Palmer Rothera South_Pole Syowa Troll Vostok
    """,
    "Arctic": """
        Longyearbyen
    """,
    "Asia": """
        Aden Almaty Amman Anadyr Aqtau Aqtobe Ashgabat Ashkhabad Atyrau Baghdad Bahrain Baku Bangkok Barnaul Beirut
        Bishkek Brunei Calcutta Chita Choibalsan Chongqing Chungking Colombo Dacca Damascus Dhaka Dili Dubai Dushanbe
        Famagusta Gaza Harbin Hebron Ho_Chi_Minh Hong_Kong Hovd Irkutsk Istanbul Jakarta Jayapura Jerusalem Kabul
        Kamchatka Karachi Kashgar Kathmandu Katmandu Khandyga Kolkata Krasnoyarsk Kuala_Lumpur Kuching Kuwait Macao
        Macau Magadan Makassar Manila Muscat Nicosia Novokuznetsk Novosibirsk Omsk Oral Phnom_Penh Pontianak Pyongyang
        Qatar Qostanay Qyzylorda Rangoon Riyadh Saigon Sakhalin Samarkand Seoul Shanghai Singapore Srednekolymsk Taipei
        Tashkent Tbilisi Tehran Tel_Aviv Thimbu Thimphu Tokyo Tomsk Ujung_Pandang Ulaanbaatar Ulan_Bator Urumqi Ust-Nera
        Vientiane Vladivostok Yakutsk Yangon Yekaterinburg Yerevan
    """,
    "Atlantic": """
        Azores Bermuda Canary Cape_Verde Faeroe Faroe Jan_Mayen Madeira Reykjavik South_Georgia St_Helena Stanley
    """,
    "Australia": """
        ACT Adelaide Brisbane Broken_Hill Canberra Currie Darwin Eucla Hobart LHI Lindeman Lord_Howe Melbourne NSW North
        Perth Queensland South Sydney Tasmania Victoria West Yancowinna
    """,
    "Europe": """
        Amsterdam Andorra Astrakhan Athens Belfast Belgrade Berlin Bratislava Brussels Bucharest Budapest Busingen
        Chisinau Copenhagen Dublin Gibraltar Guernsey Helsinki Isle_of_Man Istanbul Jersey Kaliningrad Kiev Kirov Kyiv
        Lisbon Ljubljana London Luxembourg Madrid Malta Mariehamn Minsk Monaco Moscow Nicosia Oslo Paris Podgorica
        Prague Riga Rome Samara San_Marino Sarajevo Saratov Simferopol Skopje Sofia Stockholm Tallinn Tirane Tiraspol
        Ulyanovsk Uzhgorod Vaduz Vatican Vienna Vilnius Volgograd Warsaw Zagreb Zaporozhye Zurich
    """,
    "Indian": """
        Antananarivo Chagos Christmas Cocos Comoro Kerguelen Mahe Maldives Mauritius Mayotte Reunion
    """,
    "Pacific": """
        Apia Auckland Bougainville Chatham Chuuk Easter Efate Enderbury Fakaofo Fiji Funafuti Galapagos Gambier
        Guadalcanal Guam Honolulu Johnston Kanton Kiritimati Kosrae Kwajalein Majuro Marquesas Midway Nauru Niue Norfolk
        Noumea Pago_Pago Palau Pitcairn Pohnpei Ponape Port_Moresby Rarotonga Saipan Samoa Tahiti Tarawa Tongatapu Truk
        Wake Wallis Yap
    """,
    "Canada": """
        Atlantic Central Eastern Mountain Newfoundland Pacific Saskatchewan Yukon
    """,
    "US": """
        Alaska Aleutian Arizona Central East-Indiana Eastern Hawaii Indiana-Starke Michigan Mountain Pacific Samoa
    """,
    "Etc": """
        GMT+1 GMT+2 GMT+3 GMT+4 GMT+5 GMT+6 GMT+7 GMT+8 GMT+9 GMT+10 GMT+11 GMT+12 GMT-1 GMT-2 GMT-3 GMT-4 GMT-5 GMT-6
        GMT-7 GMT-8 GMT-9 GMT-10 GMT-11 GMT-12 GMT-13 GMT-14
    """,
}
NAMES = frozenset(f"{area}/{place}" for area, places in _AREAS.items() for place in places.split())
_BY_FOLDED = {name.lower(): name for name in NAMES}
