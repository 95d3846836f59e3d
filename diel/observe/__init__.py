"""How a run stands and what it holds: status, results, explanations, comparisons."""
