// The compare view as a whole: model, state and the pictures kept between frames. Leaves out where
// it is shown (ui/render).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ui/run_view.h"
#include "ui/view/fonts.h"
#include "ui/view/image_sink.h"
#include "ui/view/lane_pictures.h"
#include "ui/view/panels.h"
#include "ui/view_model/interaction.h"

namespace foretrain::ui {

class CompareScreen {
 public:
  // `input` must outlive this, or be replaced by SetInput before it goes.
  CompareScreen(const CompareInput& input, const CompareOptions& options);
  CompareScreen(CompareInput&&, const CompareOptions&) = delete;

  // Shows newer runs in the same place. `facts`: FactsOf(input), which other threads may make.
  void SetInput(const CompareInput& input, CompareFacts facts);

  // One frame on the current Dear ImGui context, between NewFrame and Render. The record is that of
  // this frame and lives until the next.
  const FrameRecord& Draw(const ViewSize& size, const Fonts& fonts, const InputFrame& input,
                          ImageSink& images);

  const CompareModel& model() const { return *model_; }
  const Layout& layout() const { return layout_; }
  ViewState& state() { return state_; }
  Colour ground() const;

  // Whether the next frame may differ from this one without new input.
  bool IsMoving() const { return moving_; }

 private:
  // What the pictures were made for.
  struct PictureKey {
    Viewport viewport{};
    ViewSize size{};
    float scroll = 0.0F;
    std::size_t memory_lane = 0;
    bool light = false;
    std::uint64_t model = 0;

    bool operator==(const PictureKey& other) const;
  };

  void Rebuild();
  void RefreshPictures(const ViewSize& size, const Theme& theme, ImageSink& images);

  const CompareInput* input_;
  CompareFacts facts_;
  std::unique_ptr<CompareModel> model_;
  std::uint64_t model_number_ = 0;
  ViewState state_;
  Layout layout_;
  MemoryPanel memory_;
  std::optional<std::pair<std::uint64_t, std::size_t>> memory_of_;  // model number and lane
  MemoryPicture memory_picture_;
  LanePictures lanes_;
  void* lanes_texture_ = nullptr;
  void* memory_texture_ = nullptr;
  std::optional<PictureKey> key_;
  FrameRecord record_;
  bool moving_ = false;
};

}  // namespace foretrain::ui
