"""What one computes from results: ranking metrics, and Rubin's rules over completed tables; NumPy only."""
