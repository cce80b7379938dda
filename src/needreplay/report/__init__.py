"""What was measured, told: statistics, claims, figures and the page."""
