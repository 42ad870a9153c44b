"""The compiled core: records, rules, observation, and loops over many games."""
