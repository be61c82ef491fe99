// Frames of the desktop at any size and in both themes, checked as a whole: no text may be cut, lie
// over another or be hard to read. With FORETRAIN_PICTURES=FOLDER the installed fonts are used, and
// each frame is also written there as a PNG for review.
#pragma once

#include <string>

#include "tests/ui/headless_frames.h"

namespace foretrain {

struct FrameSize {
  int width = 1600;
  int height = 900;
};

class CleanFrames : public HeadlessFrames {
 protected:
  // Frames have this size from here on. To be called before a desktop is opened.
  void Resize(const FrameSize& size);

  // Draws until searches and simulations have ended.
  void Settle();

  // Draws a frame and checks it.
  void ExpectClean(const std::string& what);
  void ExpectCleanEverywhere(const std::string& what);

 private:
  FrameSize size_{};
};

}  // namespace foretrain
