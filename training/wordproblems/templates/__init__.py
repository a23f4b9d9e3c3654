"""The word problem templates by theme.

The order of these imports is the order of registration, and so part of the output: keep it, and add new modules at the
end (which still changes every seed's output, as a template is picked by index).
"""

from . import counting  # isort: skip
from . import shopping  # isort: skip
from . import money  # isort: skip
from . import work  # isort: skip
from . import time_travel  # isort: skip
from . import ages  # isort: skip
from . import shapes  # isort: skip
from . import animals  # isort: skip
from . import food  # isort: skip
from . import sequences  # isort: skip
from . import groups  # isort: skip
from . import units_places  # isort: skip
from . import five_steps  # isort: skip
