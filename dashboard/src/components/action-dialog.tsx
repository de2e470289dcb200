// One review for every action: the kubectl command, what a dry run changes, then the result of each request.
import { useEffect, useState } from "preact/hooks";
import { send, type Action, type Change, type Input, type Plan, type Target } from "../lib/actions";
import { recordActivity } from "../lib/activity";
import { json, type Json } from "../lib/http";
import { apiPath, type Resource } from "../lib/discovery";
import { objectLink } from "../lib/router";
import { toast } from "../lib/state";
import { editable, masked, toYaml } from "../lib/yaml";
import { Copy, Dialog, Loading } from "./basics";
import { Diff } from "./diff";
import { Icon } from "./icons";

export interface ObjectName {
  namespace?: string;
  name: string;
}

interface Step {
  change: Change;
  target: Target;
  command: string;
  after?: Json;
  error: string;
  state: "planned" | "running" | "done" | "failed";
}

interface Props {
  action: Action;
  resource: Resource;
  objects: ObjectName[];
  close: (done: boolean) => void;
}

const PARALLEL = 8;

async function inParallel<T>(items: T[], run: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  await Promise.all(Array.from({ length: PARALLEL }, async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await run(item);
  }));
}

export function ActionDialog({ action, resource, objects, close }: Props) {
  const [targets, setTargets] = useState<Target[] | null>(null);
  const [inputs, setInputs] = useState<Input[]>([]);
  const [values, setValues] = useState<Record<string, string> | null>(null);
  const [plans, setPlans] = useState<Plan[]>([]);
  const [steps, setSteps] = useState<Step[] | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  useEffect(() => {
    const read = async () => {
      const found = await Promise.all(objects.map(async ({ namespace, name }) => ({ resource, object: await json(apiPath(resource, namespace, name)) })));
      const asked = action.inputs ? await action.inputs(found[0]) : [];
      setTargets(found);
      setInputs(asked);
      setValues(Object.fromEntries(asked.map((each) => [each.name, each.value])));
    };
    read().catch((failure) => setError((failure as Error).message));
  }, []);

  const key = JSON.stringify(values);
  useEffect(() => {
    if (!targets || !values) return;
    let current = true;
    const prepare = async () => {
      setSteps(null);
      setError("");
      const made = await Promise.all(targets.map((target) => action.plan(target, values)));
      const found = made.flatMap((plan, index) => plan.changes.map((change): Step => ({ change, target: targets[index], command: plan.command, error: "", state: "planned" })));
      await inParallel(found, async (step) => {
        try {
          step.after = await send(step.change, true);
        } catch (failure) {
          step.error = (failure as Error).message;
        }
      });
      if (!current) return;
      setPlans(made);
      setSteps(found);
    };
    const timer = setTimeout(() => prepare().catch((failure) => current && setError((failure as Error).message)), 200);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [targets, key]);

  const run = async () => {
    setBusy(true);
    const todo = steps!.map((step): Step => ({ ...step, error: "", state: "planned" }));
    let failures = 0;
    // Requests of one object are sent in order, for example a cordon before evictions.
    await inParallel(targets!, async (target) => {
      for (const step of todo.filter((each) => each.target === target)) {
        step.state = "running";
        setSteps([...todo]);
        try {
          await send(step.change, false);
          step.state = "done";
        } catch (failure) {
          step.state = "failed";
          step.error = (failure as Error).message;
          failures += 1;
        }
        const { namespace, name } = target.object.metadata;
        recordActivity({ title: `${action.title}: ${step.change.label}`, command: step.command, href: objectLink(resource, namespace, name), error: step.error });
        setSteps([...todo]);
      }
    });
    setBusy(false);
    if (failures) return;
    toast(`${action.title}: ${objects.length === 1 ? objects[0].name : `${objects.length} objects`}`);
    close(true);
  };

  const commands = plans.map((plan) => plan.command).join("\n");
  const warnings = [...new Set(plans.map((plan) => plan.warning).filter(Boolean))].join("\n");
  const rejected = steps?.filter((step) => step.error).length || 0;
  const began = steps?.some((step) => step.state !== "planned");
  return (
    <Dialog
      wide
      title={`${action.title} ${objects.length === 1 ? objects[0].name : `${objects.length} objects`}`}
      close={() => close(Boolean(began))}
      actions={
        <>
          <button type="button" class="button" onClick={() => close(Boolean(began))}>
            {began ? "Close" : "Cancel"}
          </button>
          <button type="button" class={`button ${action.danger ? "button-danger" : "button-primary"}`} disabled={!steps || busy || began || (rejected > 0 && rejected === steps.length)} onClick={() => void run()}>
            {action.title}
            {steps && steps.length > 1 ? ` (${steps.length - rejected} of ${steps.length} requests)` : ""}
          </button>
        </>
      }
    >
      {inputs.length > 0 && values && (
        <div class="toolbar action-inputs">
          {inputs.map((each) => (
            <label key={each.name} class="form-field">
              <span>{each.label}</span>
              {each.type === "number" ? (
                <input class="input" type="number" min="0" name={each.name} value={values[each.name]} disabled={began} onInput={(event) => setValues({ ...values, [each.name]: event.currentTarget.value || "0" })} />
              ) : (
                <select class="input" name={each.name} value={values[each.name]} disabled={began} onChange={(event) => setValues({ ...values, [each.name]: event.currentTarget.value })}>
                  {each.options!.map((option) => (
                    <option key={option.value} value={option.value} selected={option.value === values[each.name]}>
                      {option.text}
                    </option>
                  ))}
                </select>
              )}
            </label>
          ))}
        </div>
      )}
      {warnings && (
        <div class="banner banner-warning action-warning">
          <Icon name="warning" />
          <p>{warnings}</p>
        </div>
      )}
      {error && (
        <p class="form-error" role="alert">
          {error}
        </p>
      )}
      {!error && !steps && <Loading text="Dry run" />}
      {steps && (
        <>
          {steps.map((step, index) => (
            <StepView key={index} step={step} open={steps.length <= 3} />
          ))}
          <div class="action-command">
            <pre class="code" aria-label="kubectl command" tabIndex={0}>{commands}</pre>
            <Copy text={commands} label="Copy the command" />
          </div>
        </>
      )}
    </Dialog>
  );
}

const STATES: Record<Step["state"], string> = { planned: "accepted by a dry run", running: "running", done: "done", failed: "failed" };

function StepView({ step, open }: { step: Step; open: boolean }) {
  const { change, after } = step;
  return (
    <details class="action-step" open={open || Boolean(step.error)}>
      <summary>
        {change.label} <span class={step.error ? "action-error" : "muted"}>{step.error ? (step.state === "failed" ? "failed" : "rejected by the dry run") : STATES[step.state]}</span>
      </summary>
      {step.error ? (
        <p class="form-error">{step.error}</p>
      ) : change.method === "DELETE" ? (
        <p class="muted">The object is deleted.</p>
      ) : change.before && after?.kind !== "Status" ? (
        <Diff before={toYaml(editable(masked(change.before)))} after={toYaml(editable(masked(after)))} />
      ) : change.path.endsWith("/eviction") ? null : (
        <pre class="code" tabIndex={0}>{toYaml(editable(masked(after)))}</pre>
      )}
    </details>
  );
}
