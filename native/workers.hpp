// Threads that share the items of a loop. If one of them throws, the caller rethrows after all have finished. Threads
// spin briefly until the next loop, then sleep. The caller never waits for a thread that has not started, so on a busy
// machine it does the work alone.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace prunus {

class Workers;

struct ReleaseWorkers {
  void operator()(Workers* workers) const;
};

class Workers {
  friend struct ReleaseWorkers;

 public:
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Call work(item, worker) for every item; the calling thread is worker 0. Each worker starts with its own share, in
  // order, and then helps the others. It gets the same part of the work in every loop.
  template <class Work>
  void for_each(ptrdiff_t items, Work&& work) {
    if (threads_.empty() || items < 2) {
      for (ptrdiff_t item = 0; item < items; item++) work(item, 0);
      return;
    }
    using Plain = std::remove_reference_t<Work>;
    run(items, [](void* context, ptrdiff_t item, int worker) { (*static_cast<Plain*>(context))(item, worker); }, &work);
  }

  // Wake sleeping threads, because there will be work soon.
  void wake() { announce({}); }

 private:
  using Call = void (*)(void*, ptrdiff_t, int);
  struct Loop {
    Call call = nullptr;
    void* context = nullptr;
    ptrdiff_t first = 0, items = 0;
    uint64_t round = 0;
  };
  void run(ptrdiff_t items, Call call, void* context);
  uint64_t announce(const Loop& loop);
  bool is_announced(uint64_t after, Loop& loop) const;
  ptrdiff_t take(const Loop& loop, int worker) noexcept;
  ptrdiff_t first_of(const Loop& loop, int worker) const;
  void perform(const Loop& loop, ptrdiff_t item, int worker) noexcept;
  void report(const Loop& loop, int worker, ptrdiff_t done);
  bool is_finished(const Loop& loop, ptrdiff_t done) const;
  bool has_next(const Loop& loop) const;
  void live(int worker);
  bool is_forked() const;  // a forked child has this object, but not its threads

  // Moving a line of memory between cores takes as long as a small step, so threads share as few as possible, and what
  // only one of them writes has a place of its own. Processors fetch lines in pairs.
  static constexpr size_t kPair = 128;

  // The current loop. Only the calling thread writes it: the round is odd while it does, and new afterwards.
  struct alignas(kPair) Announced {
    std::atomic<uint64_t> round{0};
    std::atomic<Call> call{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<ptrdiff_t> first{0}, items{0};
  };
  // How many items of a worker's share are taken, and in which round. Any thread may take the next one, so the calling
  // thread does the work of threads that have not started. A thread that is late finds a later round, or no item.
  struct alignas(kPair) Share {
    std::atomic<uint64_t> taken{0};
  };
  // How many items a worker has finished, and in which round.
  struct alignas(kPair) Report {
    std::atomic<uint64_t> done{0};
  };
  static ptrdiff_t take_one(Share& share, uint64_t round, ptrdiff_t items, ptrdiff_t given);

  Announced announced_;
  std::vector<Share> shares_;    // one per worker
  std::vector<Report> reports_;  // one per worker

  alignas(kPair) std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> asleep_{0};
  std::atomic<bool> stop_{false};
  unsigned forks_ = 0;  // when this object was made
  std::vector<std::thread> threads_;
  std::exception_ptr failure_;  // the first exception of a loop
};

}  // namespace prunus
