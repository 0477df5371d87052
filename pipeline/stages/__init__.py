"""Stage modules: read artifacts, call the core or an engine, write artifacts. One DVC stage each;
those of an axis are in its folder (``pipeline.axes``)."""
