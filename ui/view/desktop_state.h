// What all views of the desktop share: the runs that are loaded, the pinned plan, and what one view
// asks of another. Leaves out how runs are read; whoever opens a store fills this in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "traces/kinds.h"
#include "traces/run.h"
#include "ui/explanation.h"
#include "ui/run_view.h"
#include "ui/store_access.h"
#include "ui/training_process.h"
#include "ui/view_model/compare_model.h"
#include "ui/view_model/model_builder.h"
#include "ui/view_model/plan_setup.h"
#include "ui/view_model/search.h"

namespace foretrain::ui {

// A plan put aside to compare others with, or to run.
struct PinnedPlan {
  std::string title{};
  ModelSpec model{};
  ClusterSpec cluster{};
  Plan plan{};
};

// A rank in a step of the measured run, or of the forecast where there is none.
struct RankPlace {
  int rank = 0;
  std::int32_t step = 0;
};

// A store as it was read, with what takes long to compute of its runs: made on any thread.
struct PreparedStore {
  OpenedStore store{};
  std::unique_ptr<const CompareInput> input{};  // taken out of the store
  CompareFacts facts{};
  std::unique_ptr<const CompareModel> model{};
};

// `options`: of the model that is shown; steps chosen in it are kept where `same_run`.
PreparedStore Prepare(OpenedStore opened, CompareOptions options, bool same_run);

struct DesktopState {
  explicit DesktopState(std::unique_ptr<const CompareInput> shown = nullptr,
                        const CompareOptions& options = {});

  // Shows newer or other runs. `facts`: FactsOf(runs), which other threads may make.
  void SetInput(std::unique_ptr<const CompareInput> newer, CompareFacts newer_facts) {
    SetInput(std::move(newer), std::move(newer_facts), wanted);
  }

  // The same with other options of the compare view.
  void SetInput(std::unique_ptr<const CompareInput> newer, CompareFacts newer_facts,
                CompareOptions options);

  // Shows a store that was opened, or newer runs of the same.
  void TakeStore(PreparedStore prepared);

  // Builds the model with other options: at once, or, where that takes longer than a frame may, on
  // a thread of its own, and the one before stays until it is there.
  void Rebuild(const CompareOptions& options);

  // Takes a model that was built on the thread. Asked each frame.
  void TakeModel();
  bool IsBuilding() const { return builder.IsBusy(); }

  void Pin(PinnedPlan plan);

  // What is visible of the compare view's timeline; empty where it is not shown.
  std::optional<Viewport> looked_at{};
  bool reading = false;  // spans of long runs are on their way

  std::string store{};                        // path; empty: none is open
  std::vector<RunInfo> runs{};                // of the store, oldest first
  std::map<RunId, std::string> run_models{};  // names of the measured runs' models, where known
  RunId shown_run = 0;                        // of those; 0: none
  RunId shown_against = 0;  // what it was asked to be held against; 0: its forecast
  std::optional<StoreRequest> wanted_store{};  // to be opened; whoever opens it empties this
  // Paths of stores and traces that were dropped onto the window: opened one after another, so that
  // the last one is shown and all are recent, and taken out by whoever opens them.
  std::vector<std::string> dropped{};
  std::string loading{};              // path of the one that is being opened
  std::string store_error{};          // why the last one could not be
  std::vector<std::string> recent{};  // paths of stores, newest first
  bool choosing_store = false;        // the panel that opens stores covers the view

  // The runs that are shown; never null, either may be missing in it. It is replaced as a whole,
  // never changed, and `generation` grows with each.
  std::shared_ptr<const CompareInput> input;  // shared with the builder's thread
  CompareFacts facts{};
  std::uint64_t generation = 0;
  std::uint64_t runs_number = 0;  // grows when these are other runs, not the same read anew
  // The model of `input` with the options of the compare view, never null. It is replaced as a
  // whole too, and `model_number` grows with each.
  std::unique_ptr<const CompareModel> model;
  std::uint64_t model_number = 0;
  CompareOptions wanted{};  // of the model that is being built, or of `model`
  ModelBuilder builder;

  // What the plan view begins with, and whether it searches as soon as it is shown.
  PlanSetup plan_setup{};
  bool search = false;
  std::optional<LocalMachine> local{};  // this machine's CPU, where its figures are known

  std::optional<PinnedPlan> pinned{};
  std::uint64_t pinned_number = 0;  // grows when `pinned` changes

  std::optional<OpFilter> op_filter{};
  std::optional<RankPlace> go_to_place{};  // what the compare view shows when it is gone to

  // What takes the program to know; empty: cannot be made. Called on a thread of its own.
  ExplainRuns explain{};
  FindLive find_live{};
  // Starts training in a process of its own; empty: cannot be.
  StartTraining start_training{};
  std::string go_to{};                 // name of a view: it is shown from the next frame on
  std::vector<std::string> notices{};  // sentences shown under the top bar until they are erased
  bool light = false;
  // Drawn once into a file: how long the drawing's own work took is left out, so that the same
  // runs give the same picture.
  bool still = false;
};

}  // namespace foretrain::ui
