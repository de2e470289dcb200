from .aggregator import Aggregator as Aggregator
