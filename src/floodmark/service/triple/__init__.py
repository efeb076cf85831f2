"""Triple, Dubbo 3's protocol on HTTP/2, as far as plain Java interfaces need it: unary calls."""
