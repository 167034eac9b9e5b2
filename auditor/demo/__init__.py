"""The demonstration: a public data set, loaded twice and spoiled once the way pipelines spoil tables, so that an audit has
something true to find.

``flights`` is the data, ``damage`` spoils a copy of it and says what it spoiled, ``load`` puts both into databases.
"""
