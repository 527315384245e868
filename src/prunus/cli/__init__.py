"""The command line: parse, call one public function, print."""
