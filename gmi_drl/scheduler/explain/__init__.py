"""What a plan expects of a layout, formula by formula (`plan --explain`)."""
