"""The chat skills by theme. The order of these imports is the order of registration, as in templates/__init__.py."""

from . import arithmetic  # isort: skip
from . import lists  # isort: skip
from . import json_forms  # isort: skip
from . import calendar_units  # isort: skip
from . import words  # isort: skip
from . import patterns  # isort: skip
from . import talk  # isort: skip
from . import tools  # isort: skip
