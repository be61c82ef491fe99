#include <cstdio>
#include <cstdlib>
#include <optional>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/forecasting.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#if FORETRAIN_HAVE_UI
#include "app/cli/stop_signal.h"
#include "app/desktop/desktop_stores.h"
#include "app/runs/explained_runs.h"
#include "app/runs/run_progress.h"
#include "app/training/child_run.h"
#include "ui/desktop_view.h"
#include "ui/view_link.h"
#endif

namespace foretrain {
namespace {

#if FORETRAIN_HAVE_UI
// The file of the desktop's settings; empty if the environment names no home.
std::string SettingsPath() {
  const auto environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string config = environment("XDG_CONFIG_HOME");
  if (!config.empty()) return config + "/foretrain/desktop.json";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.config/foretrain/desktop.json";
}
#endif

// Opens the desktop, or draws one frame of it into a file without a display. Both build the same
// frame.
class ViewCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("store", store_,
                         "Store with the runs, or a link to a view; default foretrain.db");
    arguments.Option("--view", view_, "NAME",
                     "View to show: plan, what-if, compare, time, memory, ranks or run; default: "
                     "the last one used, compare for a picture");
    arguments.Option("--run", run_, "N", "Run to show; 0: the newest measured one");
    arguments.Option("--against", against_, "N", "Run to compare it with; 0: its forecast");
    arguments.Option("--step", step_, "N", "Step of the run; -1: the one with the median time");
    arguments.Option("--window", window_, "T..T", "Part of the step to show, e.g. 1.2ms..1.9ms");
    arguments.Option("--at", at_, "T",
                     "Moment of the step to stand at in Compare, with its queues and live tensors, "
                     "e.g. 3.2ms");
    arguments.Option("--screenshot", screenshot_, "FILE",
                     "Draw into this PNG or SVG file; needs no display");
    arguments.Option("--link", link_, "FILE.ftlink",
                     "Write a link to this view; `view FILE.ftlink` opens it again");
    arguments.Option("--size", size_, "WxH",
                     "Size in pixels; default: the last one used, or 1600x900");
    arguments.Option(
        "--scale", scale_, "X",
        "Scale of text and lines, up to 8; 0: by the screen's density, 1 for a picture");
    arguments.Flag("--light", light_, "Use light colours");
    arguments.Section("Plan and What-if");
    arguments.Option("--model", model_, "NAME|FILE",
                     "Model to plan for; the view plan then starts its search");
    arguments.Option("--cluster", cluster_, "SPEC", "local, or NODESxGPUSxGPU");
    arguments.Option("--sequence", sequence_, "N", "Tokens in one sample; 0: chosen for the model");
    arguments.Option("--global-batch", batch_, "N",
                     "Samples in one step; 0: chosen for the cluster");
    DeclareJson(arguments);
  }

  Result<Exit> Run() override {
#if FORETRAIN_HAVE_UI
    FT_TRY(CheckOutputFile("--screenshot", screenshot_));
    FT_TRY(TakeLink());
    if (!link_.empty()) return WriteLink();
    return screenshot_.empty() ? Show() : Draw();
#else
    return Fail(ErrorCode::kUnsupported,
                "this build has no desktop; `foretrain --version` says why, `foretrain compare` "
                "prints the same metrics");
#endif
  }

 private:
#if FORETRAIN_HAVE_UI
  // A link in the place of a store: its values count where no option is given.
  Result<void> TakeLink() {
    if (!store_.ends_with(kViewLinkEnding)) return {};
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, store_, kMaxViewLinkBytes));
    FT_ASSIGN(linked_, ViewLinkFromJson(text, store_));
    store_ = StoreOfLink(*linked_, store_);
    if (run_ == 0) run_ = linked_->store.run;
    if (against_ == 0) against_ = linked_->store.against;
    if (view_.empty()) view_ = linked_->view;
    light_ = light_ || linked_->light;
    if (step_ < 0 && linked_->step) step_ = *linked_->step;
    return {};
  }

  // The same view as the options would show.
  Result<Exit> WriteLink() {
    FT_TRY(CheckOutputFile("--link", link_));
    if (!link_.ends_with(kViewLinkEnding)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--link " + Printable(link_) + ": must end in " + std::string(kViewLinkEnding));
    }
    FT_ASSIGN(const ViewOptions options, Options(Settings{}));
    FT_TRY(ViewNeedsRuns(options.view));
    ViewLink link;
    link.store = {StoreForLink(Request().path, link_), run_, against_};
    link.view = options.view;
    link.step = options.step;
    link.wall_clock = options.wall_clock;
    link.queues = options.queues;
    link.light = options.light;
    link.window_start_s = options.window_start_s;
    link.window_end_s = options.window_end_s;
    link.moment_s = options.moment_s;
    PosixFileSystem files;
    FT_TRY(WriteFileAtomically(files, link_, ToJson(link)));
    if (!json_) {
      std::printf("wrote %s\n", link_.c_str());
    } else {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("link", link_);
      std::puts(json.EndObject().Take().c_str());
    }
    return Exit::kDone;
  }

  // The settings of the last window, overridden by the options.
  Result<ViewOptions> Options(const Settings& kept) const {
    ViewOptions options;
    options.view = view_.empty() ? kept.view : view_;
    options.width = kept.width;
    options.height = kept.height;
    options.scale = scale_ > 0.0 ? scale_ : kept.scale;
    options.light = light_ || kept.light;
    if (linked_) {
      options.wall_clock = linked_->wall_clock;
      options.queues = linked_->queues;
      options.window_start_s = linked_->window_start_s;
      options.window_end_s = linked_->window_end_s;
      options.moment_s = linked_->moment_s;
    }
    if (!size_.empty()) FT_TRY(ReadSize(options));
    if (step_ >= 0) options.step = static_cast<std::int32_t>(step_);
    FT_TRY(ReadPlanning(options));
    if (!at_.empty()) {
      FT_ASSIGN(options.moment_s, ParseSeconds("--at", at_));
    }
    if (window_.empty()) return options;
    const auto dots = window_.find("..");
    if (dots == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--window: \"" + Printable(window_) + "\" is not FROM..TO, e.g. 1.2ms..1.9ms");
    }
    FT_ASSIGN(options.window_start_s, ParseSeconds("--window", window_.substr(0, dots)));
    FT_ASSIGN(options.window_end_s, ParseSeconds("--window", window_.substr(dots + 2)));
    return options;
  }

  // The plan view's model and cluster, and this machine's rates.
  Result<void> ReadPlanning(ViewOptions& options) const {
    ui::PlanSetup& setup = options.plan_setup;
    if (!model_.empty()) setup.model = model_;
    if (!cluster_.empty()) FT_TRY(ui::SetCluster(cluster_, setup));
    setup.sequence = sequence_;
    setup.global_batch = batch_;
    // A model on the command line is a request to search at once.
    options.search = options.view == "plan" && !model_.empty();
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    // The rates of this machine, for plans on "local".
    const ClusterFlags flags;
    FT_ASSIGN(const ClusterSpec cluster, flags.Resolve(catalogue));
    ui::LocalMachine local;
    FT_ASSIGN(local.rates.profile, LoadProfile(flags, cluster, local.origin));
    local.rates.cluster = cluster;
    options.local = std::move(local);
    return {};
  }

  // The bounds are those of ScreenshotDesktop.
  Result<void> ReadSize(ViewOptions& options) const {
    const auto cross = size_.find('x');
    if (cross == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--size: \"" + Printable(size_) + "\" is not WIDTHxHEIGHT, e.g. 1600x900");
    }
    FT_ASSIGN(const std::int64_t width, ParseInt("--size", size_.substr(0, cross), 1, 16384));
    FT_ASSIGN(const std::int64_t height, ParseInt("--size", size_.substr(cross + 1), 1, 16384));
    options.width = static_cast<int>(width);
    options.height = static_cast<int>(height);
    return {};
  }

  // The store that was named, or the default one.
  StoreRequest Request() const { return {store_.empty() ? kDefaultStore : store_, run_, against_}; }

  // No store was named and the default does not exist: views show no runs.
  bool WithoutStore() const {
    PosixFileSystem files;
    const auto info = files.Stat(kDefaultStore);
    return store_.empty() && info.has_value() && info->kind == FileKind::kMissing;
  }

  // A picture ignores the kept settings, so that the same command draws the same picture on every
  // machine. Runs are read only if the view shows them or a store exists.
  Result<Exit> Draw() {
    FT_ASSIGN(const ViewOptions options, Options(Settings{}));
    FT_ASSIGN(const bool runs, ViewNeedsRuns(options.view));
    OpenedStore opened;
    DesktopStores stores;
    if (runs || !WithoutStore()) {
      FT_ASSIGN(std::unique_ptr<OpenedStore> read, stores.Open(Request()));
      opened = *std::move(read);
      // The path as given, so that a picture does not depend on the current folder.
      opened.path = Request().path;
    }
    FT_TRY(ScreenshotDesktop(std::move(opened), options, screenshot_, ExplainStoredRuns, &stores,
                             LiveOfStoredRun));
    json_ ? PrintJson() : static_cast<void>(std::printf("wrote %s\n", screenshot_.c_str()));
    return Exit::kDone;
  }

  // A store that cannot be read is a notice in the window, not an error: views without runs still
  // work, and another can be opened.
  Result<Exit> Show() {
    PosixFileSystem files;
    SettingsFile kept(files, SettingsPath());
    DesktopHooks hooks;
    hooks.settings = kept.Load();
    hooks.notice = kept.damage();
    FT_ASSIGN(ViewOptions options, Options(hooks.settings));
    // The kept view may be of another version: an unknown name falls back to the default.
    if (view_.empty() && !ViewNeedsRuns(options.view)) options.view = ViewOptions().view;
    DesktopStores stores;
    OpenedStore opened;
    if (!WithoutStore()) {
      Result<std::unique_ptr<OpenedStore>> read = stores.Open(Request());
      if (read.has_value()) {
        opened = *std::move(*read);
      } else {
        options.store_error = read.error().message;
      }
    }
    hooks.stores = &stores;
    hooks.doing = [&stores] { return stores.Doing(); };
    hooks.close = [&stores] { stores.Stop(); };
    hooks.keep = [&kept](const Settings& settings) {
      const auto saved = kept.Save(settings);
      if (!saved.has_value()) {
        std::fprintf(stderr, "foretrain: settings are not kept: %s\n",
                     saved.error().message.c_str());
      }
    };
    hooks.explain = ExplainStoredRuns;
    hooks.find_live = LiveOfStoredRun;
    hooks.start_training = StartsOwnExecutable();
    hooks.read_progress = ProgressOfStoredRun;
    hooks.stop = [] { return StopSignal() != 0; };
    const StopSignals signals;
    FT_TRY(ShowDesktop(std::move(opened), options, hooks));
    return StopSignal() == 0 ? Exit::kDone : ExitOfSignal(StopSignal());
  }

  void PrintJson() const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("screenshot", screenshot_);
    std::puts(json.EndObject().Take().c_str());
  }
#endif

#if FORETRAIN_HAVE_UI
  std::optional<ViewLink> linked_;  // the link that was opened
#endif
  std::string store_, view_, window_, at_, screenshot_, link_, size_;
  std::string model_, cluster_;
  std::int64_t sequence_ = 0, batch_ = 0;
  std::int64_t run_ = 0, against_ = 0, step_ = -1;
  double scale_ = 0.0;
  bool light_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeView() { return std::make_unique<ViewCommand>(); }

}  // namespace foretrain
