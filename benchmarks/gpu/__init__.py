"""Is this GPU ready? Its environment, engines against each other, and rates of random models of real shapes."""
