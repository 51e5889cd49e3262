//! Word list of pairing codes.

/// 256 short English words, common, easy to spell and distinct on a bad telephone line: no two differ by one letter. Sorted. Two versions
/// of the program must agree on the list: never change it.
#[rustfmt::skip] // as a block, not one word a line
pub(super) const WORDS: [&str; 256] = [
    "acorn", "admiral", "airport", "album", "almond", "amber", "anchor", "antler", "apple", "apron", "archer",
    "arctic", "arrow", "atlas", "autumn", "avocado", "badger", "bagel", "bakery", "balcony", "bamboo", "banana",
    "banjo", "barley", "basket", "beacon", "beaver", "bedroom", "beetle", "bicycle", "biscuit", "bishop", "blanket",
    "blossom", "bonfire", "border", "bottle", "bracelet", "bread", "bridge", "bronze", "bucket", "buffalo", "butter",
    "cabin", "cactus", "camera", "candle", "canyon", "caravan", "carpet", "castle", "cedar", "celery", "champion",
    "cherry", "chimney", "chocolate", "cinema", "circus", "clarinet", "climate", "clock", "cobra", "coconut",
    "coffee", "comet", "compass", "copper", "coral", "cottage", "cradle", "crayon", "cricket", "crystal", "cucumber",
    "curtain", "cushion", "daisy", "desert", "diamond", "dinner", "doctor", "dolphin", "donkey", "dragon", "drummer",
    "eagle", "echo", "eclipse", "elbow", "elephant", "emerald", "engine", "envelope", "fabric", "falcon", "feather",
    "finger", "flamingo", "flower", "forest", "fossil", "freezer", "galaxy", "garden", "garlic", "gazelle", "giraffe",
    "glacier", "goblin", "gorilla", "granite", "guitar", "gymnast", "hamster", "harvest", "hazel", "helmet", "hermit",
    "hobby", "honey", "horizon", "hospital", "hunter", "iceberg", "igloo", "indigo", "insect", "island", "ivory",
    "jacket", "jaguar", "jasmine", "jelly", "jigsaw", "journey", "jungle", "juniper", "kangaroo", "kennel", "kettle",
    "kitchen", "kiwi", "koala", "ladder", "lantern", "laundry", "lemon", "leopard", "library", "lilac", "lobster",
    "lunch", "magnet", "mammoth", "mango", "marble", "meadow", "melody", "mercury", "meteor", "mirror", "morning",
    "mosaic", "mountain", "muffin", "museum", "mustard", "napkin", "nature", "necklace", "needle", "novel", "nutmeg",
    "oasis", "ocean", "octopus", "office", "olive", "onion", "orange", "orchard", "origami", "ostrich", "otter",
    "oxygen", "oyster", "palace", "panda", "parrot", "pasta", "peacock", "pebble", "pelican", "penguin", "pepper",
    "piano", "picnic", "pillow", "pirate", "planet", "poppy", "pumpkin", "puppet", "puzzle", "pyramid", "quartz",
    "rabbit", "radio", "rainbow", "raisin", "raven", "ribbon", "river", "robin", "rocket", "rosemary", "ruby",
    "saddle", "sailor", "salmon", "saxophone", "scooter", "secret", "shadow", "shoulder", "silver", "skeleton",
    "sofa", "spider", "squirrel", "sunset", "teapot", "thunder", "tiger", "tomato", "tulip", "tunnel", "turtle",
    "umbrella", "unicorn", "valley", "vanilla", "velvet", "village", "violin", "volcano", "wagon", "walnut", "window",
    "winter", "wizard", "yacht", "yellow", "zebra",
];
