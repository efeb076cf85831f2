"""Triple, Dubbo 3's protocol on HTTP/2, limited to what plain Java interfaces need: unary calls."""
