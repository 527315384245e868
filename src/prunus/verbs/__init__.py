"""The things one does with Prunus, one public function each; the command line is a skin over them."""
