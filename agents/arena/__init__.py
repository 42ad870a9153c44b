"""How strong agents are: matches, intervals, ratings, plots."""
