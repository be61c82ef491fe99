// Stored runs as the desktop takes them. Leaves out drawing: ui/.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/stored_runs.h"
#include "ui/desktop_view.h"

namespace foretrain {

// `pair` with the figures' options of each run's own machine and plan. Either run may be missing.
// Errors: kCorruptInput, specs stored with a run that cannot be read.
Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair);

// Stores for the desktop. Not safe from several threads at once.
class DesktopStores final : public StoreAccess {
 public:
  // Errors: as StoreReader::Open and LoadPair; kUnsupported, a trace of another program, which is
  // told by its text.
  Result<std::unique_ptr<OpenedStore>> Open(const StoreRequest& request) override;
  Result<std::unique_ptr<OpenedStore>> Read(
      const std::array<std::vector<Stretch>, 2>& stretches) override;
  // Another file under the name of the open one is opened in its place. Errors: kIo, it is gone;
  // as Open.
  Result<std::unique_ptr<OpenedStore>> Newer() override;

 private:
  struct Current;

 public:
  DesktopStores();
  ~DesktopStores() override;

 private:
  std::unique_ptr<Current> current_;  // null: none is open
};

}  // namespace foretrain
