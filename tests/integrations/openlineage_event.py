"""Read an event, from standard input, with the classes that OpenLineage generates from its schemas, which refuse what these do not have."""

import json
import sys
from typing import Any

from openlineage.client import event_v2, facet_v2


def facet(kind: type, value: dict[str, Any], **parsed: Any) -> Any:
    """Return a facet made of an event's; it must name the very schema that its class is made from."""
    fields = {name: one for name, one in value.items() if not name.startswith("_")}
    made = kind(**{**fields, **parsed})
    assert made._schemaURL == value["_schemaURL"], (made._schemaURL, value["_schemaURL"])
    return made


def main() -> None:
    event = json.load(sys.stdin)
    (dataset,) = event["inputs"]
    quality = facet_v2.data_quality_assertions_dataset
    found = dataset["inputFacets"]["dataQualityAssertions"]
    assertions = [quality.Assertion(**one) for one in found["assertions"]]
    read = event_v2.RunEvent(
        eventType=event_v2.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(
            event["run"]["runId"],
            {
                "processing_engine": facet(
                    facet_v2.processing_engine_run.ProcessingEngineRunFacet, event["run"]["facets"]["processing_engine"]
                )
            },
        ),
        job=event_v2.Job(
            event["job"]["namespace"],
            event["job"]["name"],
            {"jobType": facet(facet_v2.job_type_job.JobTypeJobFacet, event["job"]["facets"]["jobType"])},
        ),
        inputs=[
            event_v2.InputDataset(
                dataset["namespace"],
                dataset["name"],
                inputFacets={"dataQualityAssertions": facet(quality.DataQualityAssertionsDatasetFacet, found, assertions=assertions)},
            )
        ],
        outputs=event["outputs"],
    )
    assert read._get_schema() == event["schemaURL"], read._get_schema()
    print(json.dumps([one.success for one in read.inputs[0].inputFacets["dataQualityAssertions"].assertions]))


if __name__ == "__main__":
    main()
