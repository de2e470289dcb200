from .files import Bundle as Bundle
from .files import BundleError as BundleError
from .files import BundleOptions as BundleOptions
from .files import build_bundle as build_bundle
from .files import bundle_settings as bundle_settings
from .findings import BundleFinding as BundleFinding
from .project_metadata import ProjectMetadata as ProjectMetadata
from .validation import validate_bundle as validate_bundle
