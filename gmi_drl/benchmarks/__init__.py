"""The benchmark runner: cases measured side by side, as ratios, with everything recorded that numbers depend on."""
