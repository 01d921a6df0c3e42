"""From walks to a walk model: destinations, fields, numbers of the step density, habits, the free walker."""
