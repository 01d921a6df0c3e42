"""The walk model that ships: learn a person's walks, forecast where they go next."""
