"""Other API servers behind this one: APIServices, their availability, and the way to them."""
