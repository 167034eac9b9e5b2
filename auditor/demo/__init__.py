"""The demonstration: a public data set and a copy of it with typical pipeline faults, which an audit then finds.

``flights`` reads the data, ``damage`` applies faults to a copy and lists them, ``load`` writes both into databases, ``show`` audits them.
"""
