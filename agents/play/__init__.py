"""Games of people against agents."""
