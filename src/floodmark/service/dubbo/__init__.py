"""The Dubbo protocol with Hessian2: frames, requests and responses, server and client."""
