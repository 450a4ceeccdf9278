"""Visual navigation in houses. Importing this package registers its tasks."""

from envlab_navigation.tasks import object as object
from envlab_navigation.tasks import point as point
