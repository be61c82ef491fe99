#include "ui/view/desktop_state.h"

#include <utility>

namespace foretrain::ui {

DesktopState::DesktopState(std::unique_ptr<const CompareInput> shown, const CompareOptions& options)
    : input(shown != nullptr ? std::move(shown) : std::make_unique<const CompareInput>()),
      facts(FactsOf(*input)),
      model(std::make_unique<const CompareModel>(BuildCompareModel(*input, facts, options))),
      wanted(options) {}

void DesktopState::SetInput(std::unique_ptr<const CompareInput> newer, CompareFacts newer_facts,
                            CompareOptions options) {
  builder.Cancel();
  wanted = options;
  facts = std::move(newer_facts);
  model = std::make_unique<const CompareModel>(BuildCompareModel(*newer, facts, options));
  input = std::move(newer);
  ++generation;
  ++runs_number;
  ++model_number;
}

PreparedStore Prepare(OpenedStore opened, CompareOptions options, bool same_run) {
  PreparedStore prepared;
  prepared.input = std::make_unique<const CompareInput>(std::move(opened.input));
  prepared.facts = FactsOf(*prepared.input);
  if (!same_run) options = {.rows = options.rows};  // steps and ops were another run's
  prepared.model = std::make_unique<const CompareModel>(
      BuildCompareModel(*prepared.input, prepared.facts, options));
  prepared.store = std::move(opened);
  return prepared;
}

void DesktopState::TakeStore(PreparedStore prepared) {
  OpenedStore opened = std::move(prepared.store);
  const bool same =
      store == opened.path && shown_run == opened.run && shown_against == opened.against;
  builder.Cancel();
  facts = std::move(prepared.facts);
  model = std::move(prepared.model);
  input = std::move(prepared.input);
  if (!same) ++runs_number;
  ++generation;
  ++model_number;
  if (!same) wanted = model->options;
  // Options that were changed while it was read.
  if (wanted != model->options) Rebuild(wanted);
  store = std::move(opened.path);
  runs = std::move(opened.runs);
  run_models = std::move(opened.models);
  shown_run = opened.run;
  shown_against = opened.against;
  store_error.clear();
  if (same) return;
  choosing_store = false;
  std::erase(recent, store);
  recent.insert(recent.begin(), store);
}

void DesktopState::Rebuild(const CompareOptions& options) {
  wanted = options;
  if (TakesLongToBuild(*input)) return builder.Ask(input, facts, options);
  model = std::make_unique<const CompareModel>(BuildCompareModel(*input, facts, options));
  ++model_number;
}

void DesktopState::TakeModel() {
  auto built = builder.Take();
  if (!built.has_value()) return;
  if (!built->has_value()) {
    wanted = model->options;
    notices.push_back("The runs stay as they were shown: " + built->error().message);
    return;
  }
  model = std::move(**built);
  ++model_number;
}

void DesktopState::Pin(PinnedPlan plan) {
  pinned = std::move(plan);
  ++pinned_number;
}

}  // namespace foretrain::ui
