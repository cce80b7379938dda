"""What was measured: statistics, claims, figures and the pages that show them."""
