// The state that all views of the desktop share, by its parts: the session (runs), the selection,
// navigation, stores to open, and the functions that the program lends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/explanation.h"
#include "ui/run_progress.h"
#include "ui/training_process.h"
#include "ui/view/desktop/navigation.h"
#include "ui/view/desktop/selection.h"
#include "ui/view/desktop/session.h"
#include "ui/view_link.h"
#include "ui/view_model/dock/dock_state.h"
#include "ui/view_model/planning/plan_setup.h"

namespace foretrain::ui {

// Stores that are to be opened, one at a time, and how the last attempts went. StoreLoader takes
// the requests out and fills in the rest.
struct StoreQueue {
  std::optional<StoreRequest> wanted{};
  // Paths of stores and traces that were dropped onto the window. They are opened one after
  // another, so that the last one is shown and all are recent.
  std::vector<std::string> dropped{};
  std::string opening{};              // path of the store that is being opened; empty if none is
  std::string error{};                // why the last one was not opened; empty if it was
  bool reading_spans = false;         // spans of long runs are being read
  std::vector<std::string> recent{};  // paths of stores, newest first
};

// The plan view's start.
struct PlanStart {
  PlanSetup setup{};
  bool search = false;                  // it searches as soon as it is shown
  std::optional<LocalMachine> local{};  // this machine's CPU, if its rates are known
};

// Functions that only the program can provide; each may be empty. Called on threads of their own.
struct Services {
  ExplainRuns explain{};
  FindLive find_live{};
  StartTraining start_training{};  // starts a process of its own
  ReadProgress read_progress{};    // of a run that another process records
};

enum class PictureForm { kPng, kSvg };

struct DesktopState {
  explicit DesktopState(std::unique_ptr<const CompareInput> shown = nullptr,
                        const CompareOptions& options = {})
      : session(std::move(shown), options) {}

  // Shows a store that was opened. If its runs are others, it becomes the most recent store and the
  // panel of stores closes.
  void TakeStore(PreparedStore prepared) {
    const bool others = session.TakeStore(std::move(prepared));
    stores.error.clear();
    if (!others) return;
    navigation.ShowStores(false);
    std::erase(stores.recent, session.shown().path);
    stores.recent.insert(stores.recent.begin(), session.shown().path);
  }

  Session session;
  Selection selection;
  Navigation navigation;
  DockState dock;
  StoreQueue stores;
  PlanStart plan_start;
  Services services;
  std::vector<std::string> notices{};  // sentences under the top bar, shown until they are erased
  std::optional<PictureForm> wanted_picture{};  // asked for by a key; the window saves it
  bool light = false;
  std::string view{};  // name of the chosen view
  ViewLink link{};     // to what the compare view shows; without store and view
  // Drawn once into a file: the time that the drawing's own work took is not shown, so that the
  // same runs give the same picture.
  bool still = false;
};

}  // namespace foretrain::ui
