"""Two pretrained backbones, five small image domains and the demo's recipe, for Prunus."""
