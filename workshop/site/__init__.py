"""The pages, the notebooks, the slides, the PDF."""
