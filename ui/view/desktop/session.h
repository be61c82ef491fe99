// The open store, the runs that are shown and the compare view's model of them. Leaves out how a
// store is read (ui/store_loader.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/run.h"
#include "ui/run_view.h"
#include "ui/store_access.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/runs/model_builder.h"

namespace foretrain::ui {

// A store as it was read, with the parts of its model that take long to compute. Any thread may
// make one.
struct PreparedStore {
  OpenedStore store{};                          // without its input
  std::unique_ptr<const CompareInput> input{};  // taken out of the store
  CompareFacts facts{};
  std::unique_ptr<const CompareModel> model{};
};

//   options   those of the model that is shown
//   same_run  the store holds the run that is shown: the steps chosen in `options` stay
PreparedStore Prepare(OpenedStore opened, CompareOptions options, bool same_run);

// Invariants: input() and model() always exist, and the model is built from the input and the
// facts. Both are replaced as a whole and never changed. Each replacement raises a number, so that
// a screen sees by one comparison whether its own copy is old. Main thread only.
class Session {
 public:
  explicit Session(std::unique_ptr<const CompareInput> shown = nullptr,
                   const CompareOptions& options = {});

  // The store that is open and the runs of it that are shown; an empty path if none is open.
  const StoreRequest& shown() const { return shown_; }
  const std::vector<RunInfo>& runs() const { return runs_; }  // of the store, oldest first
  // Names of the measured runs' models, where known.
  const std::map<RunId, std::string>& run_models() const { return run_models_; }

  const CompareInput& input() const { return *input_; }  // either run may be missing
  const CompareFacts& facts() const { return facts_; }
  const CompareModel& model() const { return *model_; }
  // Options of the model that is being built, or of model() if none is.
  const CompareOptions& wanted() const { return wanted_; }
  bool IsBuilding() const { return builder_.IsBusy(); }

  // What the shown run executed: the measured one, or the forecast without one. Null if unknown.
  const RunSetting* setting() const {
    const SideModel& run = model_->Of(model_->Shown());
    return run.IsPresent() ? run.run->setting.get() : nullptr;
  }

  std::uint64_t input_number() const { return input_number_; }  // grows with each input
  std::uint64_t runs_number() const { return runs_number_; }    // grows if the runs are others
  std::uint64_t model_number() const { return model_number_; }  // grows with each model

  // Names the store of the input. Changes neither input nor model.
  void SetStore(StoreRequest shown, std::vector<RunInfo> runs,
                std::map<RunId, std::string> run_models = {});

  // Shows a store that was opened, or newer data of the runs that are shown. Returns whether the
  // runs are others.
  bool TakeStore(PreparedStore prepared);

  // Builds the model with other options. If that takes longer than a frame may, it is built on
  // another thread, and the model before it stays until TakeModel.
  void Rebuild(const CompareOptions& options);

  // Takes a model that was built on the other thread. Called each frame. Returns why it could not
  // be built; `nullopt` otherwise.
  std::optional<std::string> TakeModel();

 private:
  void BuildNow();

  StoreRequest shown_{};
  std::vector<RunInfo> runs_{};
  std::map<RunId, std::string> run_models_{};
  std::shared_ptr<const CompareInput> input_;  // shared with the builder's thread
  CompareFacts facts_{};
  std::unique_ptr<const CompareModel> model_;
  CompareOptions wanted_{};
  std::uint64_t input_number_ = 0, runs_number_ = 0, model_number_ = 0;
  ModelBuilder builder_;
};

}  // namespace foretrain::ui
