"""The APIs: Gymnasium, its vector environments, PettingZoo, stable-baselines3, the package."""
