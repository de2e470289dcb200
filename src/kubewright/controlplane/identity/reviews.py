"""TokenReview and SelfSubjectReview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.errors import BadRequest, Unauthorized
from kubewright.api.values.go_format import quote
from kubewright.apiserver.authentication import TokenAuthenticator
from kubewright.apiserver.authentication.serviceaccount import ServiceAccountAuthenticator, TokenInvalidated
from kubewright.apiserver.authentication.tokens import StaticTokenAuthenticator
from kubewright.apiserver.authentication.user import AUTHENTICATED, User
from kubewright.apiserver.http.messages import HTTPRequest
from kubewright.apiserver.resources.objects import Object, current_timestamp
from kubewright.apiserver.resources.subresource import SubresourceRequest

GROUP = "authentication.k8s.io"


class IdentityReviews:
    """Serves identity reviews. Token authenticators are set when the server has its keys."""

    def __init__(self) -> None:
        self.static: Sequence[StaticTokenAuthenticator] = ()
        self.accounts: Sequence[ServiceAccountAuthenticator] = ()
        self.others: Sequence[TokenAuthenticator] = ()
        self.audiences: tuple[str, ...] = ()

    @property
    def handlers(self) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Handlers for `builtin_resources`."""
        return {
            (GROUP, "tokenreviews"): {"create": self.token},
            (GROUP, "selfsubjectreviews"): {"create": self.own},
        }

    async def token(self, call: SubresourceRequest) -> Object:
        """Authenticate the token of a TokenReview."""
        review = call.body or {}
        spec = review.get("spec") or {}
        token = spec.get("token") or ""
        if not token:
            raise BadRequest("token is required for TokenReview in authentication")
        audiences = tuple(spec.get("audiences") or self.audiences)
        status: Object = {"user": {}}
        try:
            found = await self._identify(token, audiences, call.request)
        except TokenInvalidated as error:
            status["error"] = f"[invalid bearer token, {error.why}]"
        except Unauthorized as error:
            status["error"] = _why(error)
        else:
            if found is None:
                status["error"] = "invalid bearer token"
            else:
                user, heard = found
                status = {
                    "authenticated": True,
                    "user": user.with_group(AUTHENTICATED).to_info(),
                    "audiences": list(heard),
                }
        return {"kind": "TokenReview", "apiVersion": f"{GROUP}/v1", **review, "status": status}

    async def _identify(
        self, token: str, audiences: tuple[str, ...], request: HTTPRequest
    ) -> tuple[User, tuple[str, ...]] | None:
        for table in self.static:
            user = table.user(token)
            if user is not None:
                return user, self._own_audiences(audiences)
        if token.count(".") == 2:
            for accounts in self.accounts:
                claims = accounts.verify(token, ())
                if claims is None:
                    continue
                meant = claims.get("aud") or []
                meant = [meant] if isinstance(meant, str) else meant
                heard = tuple(each for each in audiences if each in meant)
                if not heard:
                    raise Unauthorized(
                        f"[invalid bearer token, token audiences {_listed(meant)} is invalid for "
                        f"the target audiences {_listed(audiences)}]"
                    )
                user = await accounts.user_of(token, (), request=request)
                assert user is not None
                return user, heard
        failure: Unauthorized | None = None
        for authenticator in self.others:
            try:
                user = await authenticator.user_of(token)
            except Unauthorized as error:
                failure = error
                continue
            if user is not None:
                return user, self._own_audiences(audiences)
        if failure is not None:
            raise failure
        return None

    def _own_audiences(self, audiences: tuple[str, ...]) -> tuple[str, ...]:
        """Return the requested audiences of a token that is for this server."""
        own = tuple(each for each in audiences if each in self.audiences)
        if audiences and not own:
            raise Unauthorized("invalid bearer token")
        return own

    async def own(self, call: SubresourceRequest) -> Object:
        """Return the attributes of the requesting user."""
        return {
            "kind": "SelfSubjectReview",
            "apiVersion": f"{GROUP}/v1",
            "metadata": {"creationTimestamp": current_timestamp()},
            "status": {"userInfo": call.request.user.to_info()},
        }


def _listed(texts: Sequence[str]) -> str:
    return f"[{' '.join(quote(text) for text in texts)}]"


def _why(error: Unauthorized) -> str:
    return error.message if error.message != "Unauthorized" else "invalid bearer token"
