#include "ui/view/desktop/session.h"

#include <utility>

namespace foretrain::ui {

// Runs on the loader's thread. A reload of the same run keeps its options, another run keeps only
// the kind of rows.
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

Session::Session(std::unique_ptr<const CompareInput> shown, const CompareOptions& options)
    : input_(shown != nullptr ? std::move(shown) : std::make_unique<const CompareInput>()),
      facts_(FactsOf(*input_)),
      model_(std::make_unique<const CompareModel>(BuildCompareModel(*input_, facts_, options))),
      wanted_(options) {}

void Session::SetStore(StoreRequest shown, std::vector<RunInfo> runs,
                       std::map<RunId, std::string> run_models) {
  shown_ = std::move(shown);
  runs_ = std::move(runs);
  run_models_ = std::move(run_models);
}

// Every model has a number, so that screens see when theirs is old.
void Session::BuildNow() {
  model_ = std::make_unique<const CompareModel>(BuildCompareModel(*input_, facts_, wanted_));
  ++model_number_;
}

// Swaps in a prepared store without building anything. Returns whether other runs are shown than
// before.
bool Session::TakeStore(PreparedStore prepared) {
  OpenedStore& opened = prepared.store;
  StoreRequest shown{std::move(opened.path), opened.run, opened.against};
  const bool same = shown_ == shown;
  builder_.Cancel();
  facts_ = std::move(prepared.facts);
  model_ = std::move(prepared.model);
  input_ = std::move(prepared.input);
  if (!same) ++runs_number_;
  ++input_number_;
  ++model_number_;
  if (!same) wanted_ = model_->options;
  // The options were changed while another thread prepared this model.
  if (wanted_ != model_->options) Rebuild(wanted_);
  SetStore(std::move(shown), std::move(opened.runs), std::move(opened.models));
  return !same;
}

// Small models are built at once, large ones on another thread. Until then the old model stays on
// screen.
void Session::Rebuild(const CompareOptions& options) {
  wanted_ = options;
  if (TakesLongToBuild(*input_)) return builder_.Ask(input_, facts_, options);
  BuildNow();
}

// An error if the model could not be built; the options then fall back to those that are shown.
std::optional<std::string> Session::TakeModel() {
  auto built = builder_.Take();
  if (!built.has_value()) return std::nullopt;
  if (!built->has_value()) {
    wanted_ = model_->options;
    return built->error().message;
  }
  model_ = std::move(**built);
  ++model_number_;
  return std::nullopt;
}

}  // namespace foretrain::ui
