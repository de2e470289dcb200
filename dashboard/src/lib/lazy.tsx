// Components that are loaded when they are first shown.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, Loading } from "../components/basics";

export function lazy<P extends object>(load: () => Promise<{ default: FunctionComponent<P> }>): FunctionComponent<P> {
  let Loaded: FunctionComponent<P> | null = null;
  return function Lazy(props: P) {
    const [, setReady] = useState(Loaded !== null);
    const [error, setError] = useState<Error | null>(null);
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (module) => {
          Loaded = module.default;
          setReady(true);
        },
        () => setError(new Error("a part of the dashboard could not be loaded; reload the page")),
      );
    }, []);
    if (error) return <Failure error={error} />;
    return Loaded ? <Loaded {...props} /> : <Loading />;
  };
}
